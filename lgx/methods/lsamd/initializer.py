"""Expansion of selected layers: LSAMD."""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

from torch import Tensor

from lgx.architectures import Architecture
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization.expansion import check_depth, take_layers
from lgx.methods.layers import LayerExpansion

Repeat = Literal["neighbor", "cyclic"]


def _adjacent_stages(layers: Sequence[int]) -> list[list[int]]:
    """Stages of selected layers: groups of layers that are adjacent in the ancestor (LSAMD, Fig. 3a).

    Args:
        layers: Indices of the selected layers in the ancestor, increasing.

    Returns:
        For each stage the positions in ``layers``, e.g. (0, 3, 4, 6, 7) -> [[0], [1, 2], [3, 4]].
    """
    stages: list[list[int]] = []
    for position, layer in enumerate(layers):
        if stages and layer == layers[position - 1] + 1:
            stages[-1].append(position)
        else:
            stages.append([position])
    return stages


def selected(
    layers: Sequence[int], depth: int, priority: str = "last_middle_first", repeat: Repeat = "neighbor"
) -> list[int]:
    """Expansion of selected layers (LSAMD, "Building Variable-Sized Des-Nets").

    Every learngene layer is used once, in the ancestor's order. The other ``depth - len(layers)`` layers go to the
    stages one by one, in the order of ``priority``, which is repeated as often as needed. The paper shows three stages
    and two rounds. With more stages the middle ones come back to front, as in last-middle-first.

    Args:
        layers: Indices of the selected layers in the ancestor, increasing.
        depth: Layers of the descendant, at least ``len(layers)``.
        priority: Which stages grow, in this order: some of ``first``, ``middle`` and ``last``, joined by ``_``. A
            single stage is both first and last.
        repeat: ``neighbor`` repeats a stage's last layer, ``cyclic`` the stage's layers in order.

    Returns:
        Position in ``layers`` of each layer's source, length ``depth``.
    """
    check_depth(len(layers), depth)
    stages = _adjacent_stages(layers)
    turn = _turns(priority, len(stages))
    if not turn and depth > len(layers):
        raise UserError(
            f"priority {priority}: the learngene has {len(stages)} stage(s), none in the middle; name first or last"
        )
    sizes = [len(stage) for stage in stages]
    for extra in range(depth - len(layers)):
        sizes[turn[extra % len(turn)]] += 1
    if repeat == "cyclic":
        return [stage[i % len(stage)] for stage, size in zip(stages, sizes, strict=True) for i in range(size)]
    return [stage[min(i, len(stage) - 1)] for stage, size in zip(stages, sizes, strict=True) for i in range(size)]


def _turns(priority: str, num_stages: int) -> list[int]:
    """Stages in the order in which they grow, each once."""
    places = {"first": [0], "middle": list(range(num_stages - 2, 0, -1)), "last": [num_stages - 1]}
    names = priority.split("_")
    if not set(names) <= places.keys() or len(set(names)) < len(names):
        raise UserError(
            f"priority {priority!r}: expected some of first, middle and last, each once, joined by _, e.g. "
            f"last_middle_first"
        )
    return list(dict.fromkeys(stage for name in names for stage in places[name]))


class SelectedExpansion(LayerExpansion):
    """Copy the selected layers in the ancestor's order, and repeat some where the descendant has more layers.

    Patch embedding, position embedding, class token and norm are the ancestor's; the head starts at random.

    Shi et al., "Learngene Search Across Multiple Datasets for Building Variable-Sized Models" (LSAMD), 2026,
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
        """``lsamd``, the selection's gate, and the options that differ from the defaults: ``lsamd_priced_first``."""
        gate = str((self.loaded.selection or {}).get("gate", ""))
        priority = "" if self.priority == "last_middle_first" else f"_{self.priority}"
        return self.loaded.method + gate + priority + ("_cyclic" if self.repeat == "cyclic" else "")

    @cached_property
    def layers(self) -> list[int]:
        """The ancestor's layers in the learngene, counted from 0."""
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
