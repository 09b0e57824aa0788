"""Weight selection: evenly spaced elements of a larger network."""

from einops import rearrange
from torch import Tensor

from lgx.architectures import Architecture, vit_only
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization.expansion import evenly_spaced
from lgx.methods.baselines.from_source import FromSource


class WeightSelection(FromSource):
    """Evenly spaced elements of the ancestor's first layers (weight selection; IMwLM in SWS's tables).

    Uniform element selection along every dimension, first L layers. Queries, keys and values are each selected from
    their own third of the fused projection, so that element i is the same one in each; the released code selects from
    the fused matrix as a whole.

    Xu et al., "Initializing Models with Larger Ones", ICLR 2024, https://arxiv.org/abs/2311.18823

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
    """

    @property
    def method(self) -> str:
        """``weight_selection``."""
        return "weight_selection"

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """Selected elements of every parameter whose layer exists in the descendant."""
        of_source = self.loaded.require_vit("weight_selection")
        architecture = vit_only(architecture, "weight_selection")
        if architecture.depth > of_source.depth or architecture.embed_dim > of_source.embed_dim:
            raise UserError(
                f"weight_selection: {self.source} has {of_source.depth} layers of width {of_source.embed_dim}; "
                f"the descendant ({architecture.depth} of {architecture.embed_dim}) must not be deeper or wider"
            )
        targets = architecture.replace(
            num_classes=of_source.num_classes, img_size=of_source.img_size, patch_size=of_source.patch_size
        )
        selected = {}
        for name, parameter in targets.build("meta").named_parameters():
            tensor = self.loaded.tensors[name]
            if ".qkv." in name:
                parts = rearrange(tensor, "(three d) ... -> three d ...", three=3)
                shape = (3, parameter.shape[0] // 3, *parameter.shape[1:])
                selected[name] = rearrange(_select(parts, shape), "three d ... -> (three d) ...")
            else:
                selected[name] = _select(tensor, tuple(parameter.shape))
        return selected


def _select(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    for dim, size in enumerate(shape):
        if tensor.shape[dim] != size:
            tensor = tensor[(slice(None),) * dim + (evenly_spaced(tensor.shape[dim], size),)]
    return tensor.clone()
