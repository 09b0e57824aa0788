"""Descendants that are larger than their source and compute the same function."""

from collections.abc import Collection

from torch import Tensor

from lgx.architectures import Architecture, vit_only
from lgx.core.task import Task
from lgx.initialization import Sizes
from lgx.methods.baselines.from_source import FromSource
from lgx.methods.net2net.growth import Split, deepen, widen


class Net2Net(FromSource):
    """Grow a smaller network: copy neurons, heads and dimensions, and add layers that change nothing.

    Wider [0, 1]: element i of a wider axis copies element i modulo the source's size, heads as a whole; where a linear
    layer reads copies, their weights add up to the weight of the copied element. The residual stream is copied in the
    same way. Layer norms compute the same if all elements have equally many copies: the function is kept where the
    descendant's width is a multiple of the source's, and approximately otherwise. Deeper [0]: an additional layer is a
    copy whose outputs of attention and MLP start at 0, where [0] uses an identity matrix, which a residual layer has
    without it; [1] copies whole layers, which changes the function.

    [0] adds noise to the shares of copies, so that they learn different things; [1] has equal shares. Ours are drawn
    from [0.5, 1.5] and divided by their sum, which keeps the function and separates the copies; ``equal`` is [1]'s.

    [0]: Chen et al., "Net2Net: Accelerating Learning via Knowledge Transfer", ICLR 2016,
    https://arxiv.org/abs/1511.05641
    [1]: Chen et al., "bert2BERT: Towards Reusable Pretrained Language Models", ACL 2022,
    https://arxiv.org/abs/2110.07143

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
        split: How the copies of an element share its weights: ``random`` or ``equal``.
    """

    def __init__(self, source: str, split: Split = "random") -> None:
        super().__init__(source)
        self.split: Split = split

    @property
    def method(self) -> str:
        """``net2net``."""
        return "net2net"

    def sizes(self) -> Sizes:
        """Neither shallower nor narrower than the source."""
        of_source = self.loaded.require_vit(self.method)
        free = Sizes.free(of_source)
        widths, ratio = (of_source.embed_dim, free.embed_dim[1]), of_source.mlp_ratio
        return Sizes(of_source.unshared(), (of_source.depth, free.depth[1]), widths, (ratio, ratio))

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The source's parameters, widened, then deepened."""
        of_source = self.loaded.require_vit(self.method)
        wanted = vit_only(architecture, self.method)
        wider = wanted.replace(depth=of_source.depth, stages=None)
        return deepen(widen(self.loaded.tensors, of_source, wider, self.split), wider, wanted.depth)

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Whether the descendant computes the source's function."""
        own, wanted = self.loaded.require_vit(self.method), vit_only(architecture, self.method)
        if wanted.embed_dim % own.embed_dim == 0:
            return ("function  that of the source",)
        return (f"function  about that of the source: width {wanted.embed_dim} is no multiple of {own.embed_dim}",)
