"""Weight subcloning: the start."""

from collections.abc import Collection
from functools import cached_property
from math import sqrt

from torch import Tensor

from lgx.architectures import Architecture, ViTArchitecture, vit_only
from lgx.architectures.axes import Axis, axes_of
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization.expansion import take_layers
from lgx.initialization.sizes import Sizes
from lgx.initialization.width import narrow
from lgx.methods.baselines.from_source import FromSource
from lgx.methods.weight_subcloning.depth import Drop, largest, without_the_least_change, without_the_middle
from lgx.methods.weight_subcloning.importance import STREAM, Importance, Measure, of_weights, on_images


class WeightSubcloning(FromSource):
    """The ancestor's most important layers, heads, neurons and dimensions, in their order (weight subcloning).

    Importance is measured on a few images, which need no labels; see
    :func:`~lgx.methods.weight_subcloning.importance.on_images`. The residual stream has one ranking, so that layers,
    norms, patch and position embedding and head keep the same dimensions; each attention ranks its heads by the mean of
    their elements, each MLP its neurons. Without images the norms of the weights replace the activations
    (:func:`~lgx.methods.weight_subcloning.importance.of_weights`), and results say ``weight_subcloning_norms``.

    Depth: the paper drops layers from the middle, where it finds the relative magnitude of what a layer adds to be
    lowest. In DeiT-Tiny it is lowest in the last layers, and to drop these harms most. Ours is to drop, one after the
    other, the layers whose absence changes the features of the images least
    (:func:`~lgx.methods.weight_subcloning.depth.without_the_least_change`); the paper's rules are options. Without
    images the middle is dropped.

    Scale: the weights of linear layers are multiplied so that their outputs keep their standard deviation. The factor
    is ``sqrt(n / m)`` for m of n inputs, which is exact for independent inputs of one variance, e.g. after a norm; that
    all linear layers have the same factor is our reading. Biases, norms and embeddings are not scaled.

    Heads: the paper does not say how heads are dropped. Ours: whole heads, if the width of a head stays; where the
    descendant's heads are narrower, the same elements of all heads of an attention are kept, those with the highest
    mean importance. Networks with rotary positions then turn these elements by the angles of the narrower heads.

    Samragh et al., "Weight subcloning: direct initialization of transformers using larger pretrained ones", 2023,
    https://arxiv.org/abs/2312.09299

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
        data: Folder with images, also in folders below it; of a folder with splits only ``train`` is read. None: the
            norms of the weights are used.
        images: How many images are read.
        importance: ``activation``, or ``taylor`` for activation times gradient.
        drop: Which layers are dropped: ``change``, those whose absence changes the features least; ``magnitude``, those
            that add least, relative to the residual stream; ``middle``. Default: change with images, else middle.
    """

    def __init__(
        self,
        source: str,
        data: str | None = None,
        images: int = 64,
        importance: Measure = "activation",
        drop: Drop | None = None,
    ) -> None:
        super().__init__(source)
        if images < 1:
            raise UserError(f"images: expected at least 1, got {images}")
        if data is None and importance != "activation":
            raise UserError(f"importance {importance}: is measured on images; name a folder of images (data)")
        if data is None and drop in ("change", "magnitude"):
            raise UserError(f"drop {drop}: is measured on images; name a folder of images (data)")
        self.data, self.images, self.measure = data, images, importance
        self.drop: Drop = drop or ("middle" if data is None else "change")
        self._kept: dict[int, list[int]] = {}

    @property
    def method(self) -> str:
        """``weight_subcloning``."""
        return "weight_subcloning"

    def named(self, architecture: Architecture) -> str:
        """The method, then ``_norms`` without images, else what differs from the defaults: ``_taylor``, ``_middle``."""
        if self.data is None:
            return f"{self.method}_norms"
        measure = "_taylor" if self.measure == "taylor" else ""
        return self.method + measure + ("" if self.drop == "change" else f"_{self.drop}")

    @cached_property
    def ranked(self) -> Importance:
        """Importance of the source's parts."""
        of_source = self.loaded.require_vit("weight_subcloning")
        if self.data is None:
            return of_weights(self.loaded.tensors, of_source)
        return on_images(self.loaded.model.eval(), of_source, self._sample, self.measure)

    @cached_property
    def _sample(self) -> Tensor:
        """The images, normalized for the source."""
        of_source = self.loaded.require_vit("weight_subcloning")
        task = Task(
            "sample", 0, in_chans=of_source.in_chans, img_size=of_source.img_size, mean=self.loaded.mean,
            std=self.loaded.std,
        )  # fmt: skip
        from lgx.methods.sample_images import sample_images  # which imports all data modules

        return sample_images(str(self.data), self.images, task)

    def layers(self, depth: int) -> list[int]:
        """The layers of the source that a descendant of this depth gets, in order."""
        if depth not in self._kept:
            self._kept[depth] = self._keep(depth)
        return self._kept[depth]

    def _keep(self, depth: int) -> list[int]:
        total = self.loaded.require_vit("weight_subcloning").depth
        if self.drop == "change":
            return without_the_least_change(self.loaded.model.eval(), self._sample, depth)
        if self.drop == "magnitude" and self.ranked.layers is not None:
            return largest(self.ranked.layers, depth)
        return without_the_middle(total, depth)

    def sizes(self) -> Sizes:
        """Neither deeper nor wider than the source."""
        return Sizes.within(self.loaded.require_vit("weight_subcloning"))

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The most important parts of every parameter."""
        of_source = self.loaded.require_vit("weight_subcloning")
        architecture = vit_only(architecture, "weight_subcloning")
        _check_smaller(self.source, of_source, architecture)
        layers, prefix = self.layers(architecture.depth), of_source.layers
        kept = tuple(f"{prefix}{layer}." for layer in layers)
        tensors = {k: v for k, v in self.loaded.tensors.items() if not k.startswith(prefix) or k.startswith(kept)}
        selected = narrow(tensors, of_source, architecture, self._choose)
        for name, tensor in selected.items():
            selected[name] = tensor * _factor(name, of_source, architecture)
        return take_layers(selected, layers)

    def _choose(self, source: Axis, target: Axis) -> list[int]:
        """The most important elements of an axis, in order."""
        if source.kind in ("heads", "head"):
            return self._choose_heads(source, target)
        key = STREAM if source.kind == "embed" else (source.kind, source.owner)
        return largest(self.ranked.elements[key], target.size)

    def _choose_heads(self, source: Axis, target: Axis) -> list[int]:
        elements = self.ranked.elements["heads", source.owner]
        of_source = self.loaded.require_vit("weight_subcloning")
        heads = source.heads if source.kind == "heads" else of_source.num_heads
        by_head = elements.reshape(heads, -1)
        width = target.size // target.heads
        within = largest(by_head.mean(0), width)
        if source.kind == "head":
            return within
        chosen = largest(by_head.mean(1), target.heads)
        return [head * by_head.shape[1] + element for head in chosen for element in within]

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Which layers were kept, and what the importance was measured on."""
        layers = self.layers(vit_only(architecture, "weight_subcloning").depth)
        by = (
            f"{self.measure} on {len(self._sample)} images of {self.data}"
            if self.data
            else ("norms of the weights, because no images are given (data)")
        )
        rule = {"change": "least change of features", "magnitude": "least relative magnitude", "middle": "middle"}
        return (
            f"layers    {' '.join(map(str, layers))} of the source, counted from 0; dropped: {rule[self.drop]}",
            f"ranked    by {by}",
        )


def _factor(name: str, source: ViTArchitecture, target: ViTArchitecture) -> float:
    """What a linear layer's weight is multiplied by: ``sqrt(n / m)`` for m of n inputs."""
    ours, theirs = axes_of(target, name), axes_of(source, name)
    if not (name.endswith("weight") and len(ours) == 2 and ours[1] and theirs[1]):
        return 1.0
    return sqrt(theirs[1].size / ours[1].size)


def _check_smaller(name: str, source: ViTArchitecture, target: ViTArchitecture) -> None:
    sizes = [("layers", source.depth, target.depth), ("heads", source.num_heads, target.num_heads)]
    sizes.append(("dimensions", source.embed_dim, target.embed_dim))
    sizes.append(("dimensions of a head", source.embed_dim // source.num_heads, target.embed_dim // target.num_heads))
    sizes.append(("neurons", int(source.embed_dim * source.mlp_ratio), int(target.embed_dim * target.mlp_ratio)))
    for what, most, wanted in sizes:
        if wanted > most:
            raise UserError(
                f"weight_subcloning: the descendant has {wanted} {what}, but {name} only {most}; choose at most "
                f"{most}, or a larger source"
            )
