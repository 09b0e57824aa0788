"""Weight selection: evenly spaced elements of a larger network."""

from collections.abc import Collection
from typing import cast

from timm.models.convnext import ConvNeXt
from torch import Tensor, nn

from lgx.architectures import Architecture, vit_only
from lgx.architectures.library_models import LibraryModel
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Head, Sizes
from lgx.initialization.expansion import take_layers
from lgx.initialization.width import evenly, narrow
from lgx.methods.baselines.convnext_selection import select_convnext, stages_note
from lgx.methods.baselines.from_source import FromSource


class WeightSelection(FromSource):
    """Evenly spaced elements of the ancestor's first layers (weight selection; IMwLM in SWS's tables).

    The descendant's L layers are the ancestor's first L (the paper's "first-N layer selection"). Of every parameter,
    uniform element selection takes evenly spaced elements along every dimension, with the rule of the released code
    (:func:`~lgx.initialization.width.evenly_spaced`). The head is selected as well, which the released code skips;
    ask for a new head to have the same.

    Queries, keys and values are each selected from their own third of the fused projection. The released code selects
    from the fused matrix as a whole. Both are the same where the widths divide. Where they do not, the fused rule takes
    other elements for keys than for queries, although attention multiplies element i of a query with element i of a
    key; our rule keeps such pairs together.

    ConvNeXts of timm (``timm:convnext_atto,img_size=64``) start from larger ConvNeXts: the first blocks of each stage.

    Xu et al., "Initializing Models with Larger Ones", ICLR 2024, https://arxiv.org/abs/2311.18823

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
    """

    @property
    def method(self) -> str:
        """``weight_selection``."""
        return "weight_selection"

    def sizes(self) -> Sizes:
        """Neither deeper nor wider than the source."""
        return Sizes.within(self.loaded.require_vit("weight_selection"))

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """Selected elements of every parameter whose layer exists in the descendant."""
        of_source = self.loaded.require_vit("weight_selection")
        architecture = vit_only(architecture, "weight_selection")
        if architecture.depth > of_source.depth or architecture.embed_dim > of_source.embed_dim:
            raise UserError(
                f"weight_selection: {self.source} has {of_source.depth} layers of width {of_source.embed_dim}; "
                f"the descendant ({architecture.depth} of {architecture.embed_dim}) must not be deeper or wider"
            )
        first = take_layers(self.loaded.tensors, range(architecture.depth))
        return narrow(first, of_source, architecture, evenly)

    def starts(self, described: LibraryModel) -> bool:
        """Whether the model is a ConvNeXt of timm."""
        return described.library == "timm" and isinstance(described.build("meta"), ConvNeXt)

    def start_model(
        self, model: nn.Module, described: LibraryModel, head: Head
    ) -> tuple[dict[str, Tensor], tuple[str, ...]]:
        """Selected elements for a ConvNeXt from a larger one.

        Raises:
            UserError: If source and model are not ConvNeXts of one kind, or the model is the larger one.
        """
        if not self.starts(described):
            return super().start_model(model, described, head)
        source = self.loaded.model
        selected = select_convnext(source, model, (self.source, described.name), head)
        return selected, (stages_note(cast(ConvNeXt, source), cast(ConvNeXt, model)),)

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Which layers of the source were taken."""
        depth = self.loaded.require_vit("weight_selection").depth
        return (f"layers    {first_layers(vit_only(architecture, 'weight_selection').depth, depth)}",)


def first_layers(taken: int, depth: int) -> str:
    """Words for the layers that are taken from a source: ``the first 4 of the source's 12``."""
    return f"all {depth} of the source" if taken == depth else f"the first {taken} of the source's {depth}"
