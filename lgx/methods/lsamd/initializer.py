"""Expansion of selected layers: LSAMD."""

from functools import cached_property

from torch import Tensor

from lgx.architectures import Architecture
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization.expansion import take_layers
from lgx.methods.layers import LayerExpansion
from lgx.methods.lsamd.expansion import Repeat, selected


class SelectedExpansion(LayerExpansion):
    """Copy the selected layers in the ancestor's order, and repeat some where the descendant has more layers.

    Patch embedding, position embedding, class token and norm are the ancestor's; the head starts at random.

    Shi et al., "Learngene Gating Across Multiple Datasets for Building Variable-Sized Models" (LSAMD), 2026,
    https://arxiv.org/abs/2605.08209

    Args:
        source: Learngene file.
        priority: Stages that grow, in the order of growth: some of first, middle and last, joined by ``_``.
        repeat: ``neighbor`` repeats a stage's last layer, ``cyclic`` the stage's layers in order.
    """

    def __init__(self, source: str, priority: str = "last_middle_first", repeat: Repeat = "neighbor") -> None:
        super().__init__(source)
        self.priority: str = priority
        self.repeat: Repeat = repeat

    @property
    def method(self) -> str:
        """``lsamd`` and the options that differ from the defaults: ``lsamd_first``, ``lsamd_last_cyclic``."""
        priority = "" if self.priority == "last_middle_first" else f"_{self.priority}"
        return self.loaded.method + priority + ("_cyclic" if self.repeat == "cyclic" else "")

    @cached_property
    def layers(self) -> list[int]:
        """The ancestor's layers in the learngene, counted from 0.

        Raises:
            UserError: If the file's list of layers contradicts its tensors.
        """
        layers = [int(layer) for layer in (self.loaded.selection or {}).get("layers", [])]
        depth, stored = self.loaded.architecture.depth, self.loaded.num_layers
        if len(layers) != stored or layers != sorted(set(layers)) or not set(layers) <= set(range(depth)):
            raise UserError(
                f"{self.source}: names layers {layers} of an ancestor of {depth}, but holds the tensors of {stored} "
                f"layers; extract it again with `lgx extract`"
            )
        return layers

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The learngene's layers, expanded to the descendant's depth."""
        tensors = self.tensors_for(architecture)
        return take_layers(tensors, selected(self.layers, architecture.depth, self.priority, self.repeat))
