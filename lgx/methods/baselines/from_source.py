"""Starts that are taken from one pretrained network: their base, Vanilla-LG, weight selection. The random start."""

from collections.abc import Collection
from functools import cached_property

from torch import Tensor

from lgx.architectures import Architecture, ViTArchitecture, name_of
from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Initializer, Origin, Sizes
from lgx.initialization.width import evenly, narrow


class FromSource(Initializer):
    """An initializer that reads one trained network when it is first used.

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
    """

    def __init__(self, source: str) -> None:
        self.source = source

    @cached_property
    def loaded(self) -> PretrainedNetwork:
        """The trained network."""
        return load_pretrained(self.source)

    @property
    def of_source(self) -> Architecture:
        """Architecture of the trained network."""
        return self.loaded.require_architecture(self.method)

    @property
    def vit(self) -> ViTArchitecture:
        """The same, for a start that knows image models only."""
        architecture = self.of_source
        if not architecture.reads_text:
            return self.loaded.require_vit(self.method)
        raise UserError(
            f"{self.source}: {self.method} is for image models, but {name_of(architecture)} reads text; choose "
            f"another method, e.g. weight_subcloning"
        )

    def check_depth(self, depth: int) -> None:
        """Refuse a descendant with more layers than the source."""
        if depth > self.of_source.depth:
            raise UserError(
                f"{self.method}: the descendant has {depth} layers, but {self.source} has only {self.of_source.depth}; "
                f"choose at most {self.of_source.depth}, or a larger source"
            )

    @property
    def stored_parameters(self) -> int:
        """All trained parameters of the source, without a head that its file lacks."""
        source = self.loaded
        architecture = self.loaded.architecture
        lacking = () if architecture is None or source.has_head else architecture.head_prefixes
        return sum(p.numel() for name, p in source.stored.named_parameters() if not name.startswith(lacking))

    def origin(self) -> Origin:
        """The source's normalization, classes with their names, and kind."""
        source = self.loaded
        architecture = source.architecture
        classes = architecture.num_classes if architecture else getattr(source.stored, "num_classes", 0)
        kind = architecture.kind if architecture else "classification"
        return Origin(
            num_classes=(source.has_head and classes) or None,
            kind=kind,
            mean=source.mean,
            std=source.std,
            label_names=source.label_names or None,
            architecture=architecture,
            reading=source.reading,
            half=source.half,
        )

    def check_heads(self, architecture: Architecture) -> None:
        """Refuse another number of heads than the source's: shapes do not depend on it, but attention does."""
        heads = self.of_source.num_heads
        if heads != architecture.num_heads:
            raise UserError(
                f"{self.method}: {self.source} has {heads} attention heads, but the descendant has "
                f"{architecture.num_heads}; write num_heads={heads} in the architecture"
            )


class FromInputs(FromSource):
    """A start that may measure its source on a few images or texts, which need no labels.

    Args:
        source: See :class:`FromSource`.
        data: Folder with images or texts, see :func:`~lgx.methods.weight_subcloning.samples.sample_inputs`; or None.
        images: Number of images or texts.
    """

    def __init__(self, source: str, data: str | None = None, images: int = 64) -> None:
        super().__init__(source)
        if images < 1:
            raise UserError(f"images: expected at least 1, got {images}")
        self.data, self.images = data, images

    @cached_property
    def sample(self) -> Tensor:
        """The images (N, C, H, W), normalized for the source, or token ids (N, L)."""
        from lgx.methods.weight_subcloning.samples import sample_inputs  # which imports data modules

        return sample_inputs(self.loaded, str(self.data), self.images, self.method)


class VanillaLG(FromSource):
    """The ancestor's last k layers, the rest random (Vanilla-LG).

    They become the descendant's last layers, after a variable number of random layers, as LSAMD's section on related
    work says. Patch embedding, position embedding and head stay random, as in SWS's comparison.

    Wang et al., "Learngene: From Open-World to Your Learning Task", AAAI 2022, https://arxiv.org/abs/2106.06788

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
        layers: Number of layers, k.
    """

    method = "vanilla_lg"

    def __init__(self, source: str, layers: int = 3) -> None:
        super().__init__(source)
        self.layers = layers

    @property
    def stored_parameters(self) -> int:
        """Parameters of the k layers."""
        depth, prefix = self.of_source.depth, self.of_source.layers
        last = tuple(f"{prefix}{i}." for i in range(depth - self.layers, depth))
        return sum(t.numel() for name, t in self.loaded.tensors.items() if name.startswith(last))

    def sizes(self) -> Sizes:
        """Any depth of at least k layers."""
        return Sizes.of_any_depth(self.of_source, self.layers)

    def source_layers(self, depth: int) -> list[int] | None:
        """See :class:`~lgx.initialization.Initializer`; the layers beside the k are random."""
        layers = [*range(self.of_source.depth)]
        random = range(depth - self.layers)
        if not 0 <= len(random) <= len(layers):
            return None
        return [*random, *layers[len(layers) - self.layers :]]

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The k layers, as the last ones."""
        self.check_heads(architecture)
        depth = self.of_source.depth
        if not 1 <= self.layers <= min(depth, architecture.depth):
            raise UserError(
                f"vanilla_lg: layers must be between 1 and {min(depth, architecture.depth)} (the shallower of ancestor "
                f"and descendant), got {self.layers}"
            )
        prefix = self.of_source.layers
        tensors: dict[str, Tensor] = {}
        for k in range(-self.layers, 0):
            of_layer = f"{prefix}{depth + k}."
            for name, tensor in self.loaded.tensors.items():
                if name.startswith(of_layer):
                    tensors[f"{prefix}{architecture.depth + k}.{name.removeprefix(of_layer)}"] = tensor.clone()
        return tensors


class WeightSelection(FromSource):
    """Evenly spaced elements of the ancestor's first layers (weight selection; IMwLM in SWS's tables).

    The descendant's L layers are the ancestor's first L (the paper's "first-N layer selection"). Of every parameter,
    uniform element selection takes evenly spaced elements along every dimension, with the rule of the released code
    (:func:`~lgx.initialization.width.evenly_spaced`). The head is selected as well; the released code skips it. A new
    head gives the same.

    Queries, keys and values are each selected from their own third of the fused projection. The released code selects
    from the fused matrix as a whole. Both rules agree if one width divides the other. Otherwise, the fused rule takes
    different elements for keys and queries, although attention multiplies element i of a query with element i of a key.
    Our rule keeps such pairs together. For the same reason, heads stay whole in networks with groups of heads or with
    rotary positions (:func:`~lgx.initialization.width.heads_whole`).

    Xu et al., "Initializing Models with Larger Ones", ICLR 2024, https://arxiv.org/abs/2311.18823

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
    """

    method = "weight_selection"

    def sizes(self) -> Sizes:
        """Neither deeper nor wider than the source."""
        return Sizes.within(self.of_source)

    def source_layers(self, depth: int) -> list[int]:
        """See :class:`~lgx.initialization.Initializer`: the first ones."""
        self.check_depth(depth)
        return [*range(depth)]

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """Selected elements of every parameter whose layer exists in the descendant."""
        self.check_depth(architecture.depth)
        if architecture.embed_dim == self.of_source.embed_dim:  # narrower networks mix the elements of heads anyway
            self.check_heads(architecture)
        prefix = self.of_source.layers
        first = range(architecture.depth)
        kept = tuple(f"{prefix}{layer}." for layer in first)
        tensors = {k: t for k, t in self.loaded.tensors.items() if not k.startswith(prefix) or k.startswith(kept)}
        return narrow(tensors, self.of_source, architecture, evenly)

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Which layers of the source were taken."""
        whole = self.of_source.depth
        depth = architecture.depth
        layers = f"all {whole} of the source" if depth == whole else f"the first {depth} of the source's {whole}"
        return (f"layers    {layers}",)


class RandomStart(Initializer):
    """The random initialization of timm or transformers."""

    method = "random"
    reads_source = False

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """Nothing: every parameter keeps its random start."""
        return {}

    def sizes(self) -> Sizes:
        """Any size."""
        return Sizes.free()
