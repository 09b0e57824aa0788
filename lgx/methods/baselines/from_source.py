"""Starts that are taken from one pretrained network."""

from functools import cached_property

from lgx.architectures import Architecture, ViTArchitecture
from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.errors import UserError
from lgx.initialization import Initializer, Origin


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
    def vit(self) -> ViTArchitecture:
        """Architecture of the trained network."""
        return self.loaded.require_vit(self.method)

    def check_depth(self, depth: int) -> None:
        """Refuse a descendant with more layers than the source."""
        if depth > self.vit.depth:
            raise UserError(
                f"{self.method}: the descendant has {depth} layers, but {self.source} only {self.vit.depth}; choose at "
                f"most {self.vit.depth}, or a larger source"
            )

    @property
    def stored_parameters(self) -> int:
        """All parameters of the source."""
        return sum(p.numel() for p in self.loaded.model.parameters())

    def origin(self) -> Origin:
        """The source's normalization, classes with their names, and kind."""
        source = self.loaded
        known = source.architecture
        classes = (known.num_classes if known else getattr(source.model, "num_classes", 0)) if source.has_head else 0
        kind = known.kind if known else "classification"
        return Origin(
            num_classes=classes or None,
            kind=kind,
            mean=source.mean,
            std=source.std,
            label_names=source.label_names or None,
            architecture=known,
            reading=source.reading,
        )

    def check_heads(self, architecture: Architecture, of_source: Architecture | None = None) -> None:
        """Refuse another number of heads than the source's: shapes do not depend on it, but attention does."""
        heads = (of_source or self.vit).num_heads
        if heads != architecture.num_heads:
            raise UserError(
                f"{self.method}: {self.source} has {heads} attention heads, the descendant {architecture.num_heads}; "
                f"write num_heads={heads} in the architecture"
            )
