"""Starts taken straight from one trained network: the whole of it, some layers, or some elements."""

from functools import cached_property
from typing import Literal, cast

from einops import rearrange
from torch import Tensor

from lgx.architectures.family import Architecture, vit_only
from lgx.architectures.gpt2 import GPT2Architecture
from lgx.batch import Kind, Task
from lgx.errors import UserError
from lgx.expansion import evenly_spaced
from lgx.initializers.base import Initializer
from lgx.learngene import SUFFIX, read_safetensors, take_layers
from lgx.sources import Source, load_source


class FromSource(Initializer):
    """An initializer that reads one trained network when it is first used.

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
    """

    def __init__(self, source: str) -> None:
        self.source = source

    @cached_property
    def loaded(self) -> Source:
        """The trained network."""
        return load_source(self.source)

    @property
    def stored_parameters(self) -> int:
        """All parameters of the source."""
        return sum(p.numel() for p in self.loaded.model.parameters())


class Pretrained(FromSource):
    """The source as it is, for a descendant of the same depth and width (pretrain-finetune).

    Position embedding and patch projection are resampled to another image or patch size; a GPT-2 may read shorter texts
    than its source, and has a random head where that is a language model.

    Args:
        source: Learngene file of a whole network, folder or weights file that ``lgx init`` wrote, checkpoint, or timm
            model name.
        name: Name of the method in results, e.g. how a folder that ``lgx init`` wrote came about.
    """

    def __init__(self, source: str, name: str = "pretrained") -> None:
        super().__init__(source)
        self.name = name

    @property
    def method(self) -> str:
        """``pretrained``, or the name given."""
        return self.name

    @property
    def stored_parameters(self) -> int:
        """All parameters of the source."""
        return super().stored_parameters if self.bare is None else sum(t.numel() for t in self.bare.values())

    @property
    def bare(self) -> dict[str, Tensor] | None:
        """Tensors of a bare weights file, which does not say its architecture; None for other sources."""
        return self._file[0] if self._file else None

    @property
    def head_kind(self) -> Kind | None:
        """See :class:`~lgx.initializers.base.Initializer`; a bare file says it in its metadata or names."""
        if self._file is None:
            return super().head_kind
        tensors, metadata = self._file
        is_text = any(name.startswith(GPT2Architecture.layers) for name in tensors)
        return "text" if is_text else cast(Kind, metadata.get("kind", "classification"))

    @cached_property
    def _file(self) -> tuple[dict[str, Tensor], dict[str, str]] | None:
        is_bare = self.source.endswith(".safetensors") and not self.source.endswith(SUFFIX)
        return read_safetensors(self.source) if is_bare else None

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """All parameters of the source."""
        if self.bare is not None:
            return self.bare
        of_source = self.loaded.require_known("pretrained")
        if of_source.depth != architecture.depth:
            raise UserError(
                f"pretrained: {self.source} has {of_source.depth} layers, the descendant {architecture.depth}; "
                f"choose the same depth, or weight_selection for a shallower descendant"
            )
        _check_heads("pretrained", self.source, of_source, architecture)
        return dict(self.loaded.tensors)


class VanillaLG(FromSource):
    """The ancestor's last k layers, the rest random (Vanilla-LG).

    Wang et al., "Learngene: From Open-World to Your Learning Task", 2022. The layers come below randomly initialised
    ones (``position: front``); texts on it leave the place open, hence the option. Only whole layers are taken:
    patch embedding, position embedding and head stay random, as in the descendants that SWS compares with.

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
        layers: How many layers, k.
        position: Where they stand in the descendant.
    """

    def __init__(self, source: str, layers: int = 3, position: Literal["front", "back"] = "front") -> None:
        super().__init__(source)
        self.layers, self.position = layers, position

    @property
    def method(self) -> str:
        """``vanilla_lg``."""
        return "vanilla_lg"

    @property
    def stored_parameters(self) -> int:
        """Parameters of the k layers."""
        depth = self.loaded.require_vit("vanilla_lg").depth
        last = tuple(f"blocks.{i}." for i in range(depth - self.layers, depth))
        return sum(t.numel() for name, t in self.loaded.tensors.items() if name.startswith(last))

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The k layers at their place."""
        of_source = self.loaded.require_vit("vanilla_lg")
        _check_heads("vanilla_lg", self.source, of_source, architecture)
        depth = of_source.depth
        if not 1 <= self.layers <= min(depth, architecture.depth):
            raise UserError(
                f"vanilla_lg: layers must be between 1 and {min(depth, architecture.depth)} (the shallower of ancestor "
                f"and descendant), got {self.layers}"
            )
        blocks = {k: v for k, v in self.loaded.tensors.items() if k.startswith("blocks.")}
        taken = take_layers(blocks, list(range(depth - self.layers, depth)))
        if self.position == "front":
            return taken
        shift = architecture.depth - self.layers
        return {_shift(name, shift): tensor for name, tensor in taken.items()}


class WeightSelection(FromSource):
    """Evenly spaced elements of the ancestor's first layers (weight selection; IMwLM in SWS's tables).

    Xu et al., "Initializing Models with Larger Ones", 2024: uniform element selection along every dimension, first
    L layers. Queries, keys and values are selected from their own third of the fused projection, so that element i
    means the same in each; the released code spreads over the fused matrix as a whole.

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


def _check_heads(method: str, source: str, of_source: Architecture, architecture: Architecture) -> None:
    """Refuse other heads: no shape depends on their number, but what attention computes does."""
    if of_source.num_heads != architecture.num_heads:
        raise UserError(
            f"{method}: {source} has {of_source.num_heads} attention heads, the descendant {architecture.num_heads}; "
            f"write num_heads={of_source.num_heads} in the architecture"
        )


def _select(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    for dim, size in enumerate(shape):
        if tensor.shape[dim] != size:
            tensor = tensor[(slice(None),) * dim + (evenly_spaced(tensor.shape[dim], size),)]
    return tensor.clone()


def _shift(name: str, by: int) -> str:
    _, index, rest = name.split(".", 2)
    return f"blocks.{int(index) + by}.{rest}"
