"""The selection: which layers of the ancestor each data set uses, as a figure and a table, and the learngene."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, reduce
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from lgx.architectures import Architecture, architecture_from_dict
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.safety import check_weights
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.host.files import digest_of
from lgx.initialization.expansion import check_depth, take_layers
from lgx.methods.layers import LayerExpansion

if TYPE_CHECKING:
    from matplotlib.figure import Figure


BASE = "base."


@dataclass(frozen=True)
class Selection:
    """Paths of several data sets through one super ancestor (LSAMD, Eq. 3).

    Layers are numbered from 0, as timm's ``blocks`` are; the paper counts them from 1.

    Attributes:
        base_share: For every data set and layer, the share of the validation examples that prefer the base block.
        routing: ``batch`` or ``image``.
        swap_rise: For the data sets where it was measured, how much the loss rises in each layer without its block.
        gate: What the gate adds to the method's name, e.g. ``_priced``.
    """

    base_share: Mapping[str, Sequence[float]]
    routing: str
    swap_rise: Mapping[str, Sequence[float]] = field(default_factory=dict)
    gate: str = ""

    def __post_init__(self) -> None:
        for task, shares in self.base_share.items():
            if not all(map(isfinite, shares)):
                raise UserError(f"selection: the path of {task} is unknown; validate on it, then extract again")

    @property
    def paths(self) -> dict[str, list[bool]]:
        """For every data set and layer, whether the base block is used: g_i(t)."""
        return {task: [share >= 0.5 for share in shares] for task, shares in self.base_share.items()}

    @property
    def usage(self) -> list[int]:
        """For every layer, how many data sets use its base block: G_i."""
        return [sum(used) for used in zip(*self.paths.values(), strict=True)]

    def layers(self, threshold: float | None = None) -> list[int]:
        """The learngene: layers whose base block more than ``threshold`` data sets use.

        Args:
            threshold: τ; half the number of data sets by default, as in the paper.
        """
        tau = self.threshold(threshold)
        usage = self.usage
        chosen = [layer for layer, used in enumerate(usage) if used > tau]
        if 0 < len(chosen) < len(usage):
            return chosen
        possible = sorted({t for t in (0, *usage) if min(usage) <= t < max(usage)})
        hint = f"choose {' or '.join(map(str, possible))}" if possible else "train on, or on other data sets"
        what = "all layers: every layer is" if chosen else "no layer: none is"
        raise UserError(
            f"threshold {tau:g} selects {what} used by more than {tau:g} of {len(self.base_share)} data sets "
            f"(usage {' '.join(map(str, usage))}); {hint}"
        )

    def threshold(self, threshold: float | None = None) -> float:
        """τ, half the number of data sets by default."""
        return len(self.base_share) / 2 if threshold is None else threshold

    def merged(self, other: "Selection") -> "Selection":
        """Both selections as one."""
        twice = self.base_share.keys() & other.base_share.keys()
        if twice:
            raise UserError(f"selection: data set {', '.join(sorted(twice))} is in two runs; give one run of it")
        if self.routing != other.routing:
            raise UserError(f"selection: one run routed by {self.routing}, another by {other.routing}; do not mix them")
        if self.gate != other.gate:
            raise UserError(f"selection: one run is of lsamd{self.gate}, another of lsamd{other.gate}; do not mix them")
        rise = {**self.swap_rise, **other.swap_rise}
        return Selection({**self.base_share, **other.base_share}, self.routing, rise, self.gate)

    def to_dict(self, threshold: float | None = None) -> dict[str, Any]:
        """Plain types, with what the threshold selects."""
        return {
            "layers": self.layers(threshold),
            "threshold": self.threshold(threshold),
            "usage": self.usage,
            "paths": self.paths,
            "base_share": {task: list(shares) for task, shares in self.base_share.items()},
            "routing": self.routing,
            **({"gate": self.gate} if self.gate else {}),
            **({"swap_rise": {task: list(rise) for task, rise in self.swap_rise.items()}} if self.swap_rise else {}),
        }


@dataclass(frozen=True)
class SelectionRun:
    """A trained super ancestor.

    Attributes:
        about: The run's description: ancestor, architecture, routing, tasks.
        state: State dict of the super ancestor.
        digest: Digest of its checkpoint; empty for a run that is not stored.
    """

    about: Mapping[str, Any]
    state: Mapping[str, Tensor]
    digest: str = ""

    @classmethod
    def load(cls, path: str | Path) -> "SelectionRun":
        """Read a run of LSAMD.

        Args:
            path: The run's folder, whose last checkpoint is read, or a checkpoint.
        """
        file = Path(path)
        if file.is_dir():
            file = file / "checkpoints/last.ckpt"
        checkpoint = load_checkpoint(file)
        about, state = checkpoint.get("lgx"), checkpoint.get("state_dict")
        if not isinstance(about, dict) or not isinstance(state, dict) or "routing" not in about:
            method = about.get("method") if isinstance(about, dict) else "another program"
            raise UserError(f"{file}: a checkpoint of {method}, not of LSAMD")
        prefix = "network."
        of_network = {k.removeprefix(prefix): v for k, v in state.items() if str(k).startswith(prefix)}
        run = cls(about, of_network, digest_of(file))
        check_weights(run.base, str(file))
        return run

    @property
    def selection(self) -> Selection:
        """The paths of its data sets in its last validation."""
        names = [f"branches.{i}.swap_rise" for i in range(len(self.about["tasks"]))]
        has_rises = all(name in self.state and bool(self.state[name].isfinite().all()) for name in names)
        rise = self._by_task("swap_rise") if has_rises else {}
        return Selection(self._by_task("base_share"), str(self.about["routing"]), rise, str(self.about.get("gate", "")))

    @property
    def base(self) -> dict[str, Tensor]:
        """The ancestor, without a head."""
        return {name.removeprefix(BASE): tensor for name, tensor in self.state.items() if name.startswith(BASE)}

    def same_ancestor(self, other: "SelectionRun") -> bool:
        """Whether both have the same ancestor."""
        ours = self.base
        theirs = other.base
        return ours.keys() == theirs.keys() and all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())

    def _by_task(self, what: str) -> dict[str, list[float]]:
        return {name: self.state[f"branches.{i}.{what}"].tolist() for i, name in enumerate(self.about["tasks"])}


def headless(architecture: Architecture) -> Architecture:
    """The ancestor's architecture without a decoder: its head is left out, each data set has one of its own."""
    return architecture if architecture.reads_text else architecture.replace(kind="classification")


def extract_learngene(runs: Sequence[SelectionRun], threshold: float | None = None) -> Learngene:
    """The base blocks that more than ``threshold`` data sets of all runs use, with all parameters outside the layers.

    Args:
        runs: At least one.
        threshold: τ; half the number of data sets by default.
    """
    first = runs[0]
    for other in runs[1:]:
        if not first.same_ancestor(other):
            raise UserError(
                f"selection: {', '.join(other.about['tasks'])} has another ancestor than "
                f"{', '.join(first.about['tasks'])}; select on all data sets with one ancestor"
            )
    selection = reduce(Selection.merged, (run.selection for run in runs))
    architecture = headless(architecture_from_dict(first.about["architecture"]))
    tensors = take_layers(first.base, selection.layers(threshold), architecture.layers)
    return Learngene(
        "lsamd",
        architecture,
        architecture.fit_input_sizes(tensors, architecture),
        ancestor=str(first.about["ancestor"]),
        task=dict(first.about.get("inputs", {})),  # the base blocks expect the ancestor's normalization
        tasks=dict(chain(*(run.about["tasks"].items() for run in runs))),
        selection=selection.to_dict(threshold),
        sources=tuple(run.digest for run in runs if run.digest),
    )


def routing_figure(preferences: Mapping[str, Mapping[str, Sequence[float]]]) -> "Figure":
    """Draw a heat map for each selection: a row for each data set, a column for each layer (LSAMD, Fig. 7).

    Args:
        preferences: Title -> data set -> preference of the base block in each layer, in [0, 1]. Values of at least 0.5,
            where the base block is used, are marked with a dot.
    """
    from matplotlib.figure import Figure

    from lgx.components.figures import plain

    first = next(iter(preferences.values()))
    layers = len(next(iter(first.values())))
    height = max(map(len, preferences.values()))
    figure = Figure(figsize=(2.2 + 0.32 * layers * len(preferences), 1.3 + 0.32 * height), layout="constrained")
    panels = figure.subplots(1, len(preferences), squeeze=False)[0]
    for axes, (title, rows) in zip(panels, preferences.items(), strict=True):
        image = axes.imshow(list(rows.values()), vmin=0, vmax=1, cmap="RdBu", aspect="equal")
        y, x = np.nonzero(np.array(list(rows.values())) >= 0.5)
        axes.scatter(x, y, s=9, color="white")
        axes.set_yticks(range(len(rows)), [plain(task) for task in rows])
        axes.set_xticks(range(layers))
        axes.set_xlabel("layer of the ancestor")
        axes.set_title(plain(title), fontsize="medium")
    figure.colorbar(image, ax=list(panels), label="base block preferred", shrink=0.8)
    return figure


def path_lines(selection: Selection) -> list[list[str]]:
    """Lines of a table: for each data set ``●`` where a layer uses its base block, then the number of data sets."""
    marks = {True: "●", False: "·"}
    lines = [[name, *map(marks.__getitem__, used)] for name, used in selection.paths.items()]
    return [*lines, ["usage", *map(str, selection.usage)]]


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


def selected(layers: Sequence[int], depth: int, priority: str = "last_middle_first") -> list[int]:
    """Expansion of selected layers (LSAMD, "Building Variable-Sized Des-Nets").

    Every learngene layer is used once, in the ancestor's order. The other ``depth - len(layers)`` layers go to the
    stages one by one, in the order of ``priority``, which is repeated as often as needed; a stage repeats its last
    layer. The paper shows three stages and two rounds. With more stages the middle ones come back to front, as in
    last-middle-first.

    Args:
        layers: Indices of the selected layers in the ancestor, increasing.
        depth: Layers of the descendant, at least ``len(layers)``.
        priority: Stages that grow, in this order: some of ``first``, ``middle`` and ``last``, joined by ``_``. A single
            stage is both first and last.

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
    expanded: list[int] = []
    for stage, size in zip(stages, sizes, strict=True):
        expanded += stage + stage[-1:] * (size - len(stage))
    return expanded


def _turns(priority: str, num_stages: int) -> list[int]:
    """Stages in the order in which they grow, each once."""
    stages = {"first": [0], "middle": list(range(num_stages - 2, 0, -1)), "last": [num_stages - 1]}
    names = priority.split("_")
    if not set(names) <= stages.keys() or len(set(names)) < len(names):
        raise UserError(
            f"priority {priority!r}: expected some of first, middle and last, each once, joined by _, e.g. "
            f"last_middle_first"
        )
    return list(dict.fromkeys(chain(*(stages[name] for name in names))))


class SelectedExpansion(LayerExpansion):
    """Copy the selected layers in the ancestor's order; repeat some if the descendant has more layers.

    Patch embedding, position embedding, class token and norm come from the ancestor; the head is random.

    Shi et al., "Learngene Search Across Multiple Datasets for Building Variable-Sized Models" (LSAMD), 2026,
    https://arxiv.org/abs/2605.08209

    Args:
        source: Learngene file.
        priority: Stages that grow, in the order of growth: some of first, middle and last, joined by ``_``.
    """

    def __init__(self, source: str, priority: str = "last_middle_first") -> None:
        super().__init__(source)
        self.priority: str = priority

    @property
    def method(self) -> str:
        """``lsamd``, the selection's gate, and the options that differ from the defaults: ``lsamd_priced_first``."""
        gate = str((self.loaded.selection or {}).get("gate", ""))
        priority = "" if self.priority == "last_middle_first" else f"_{self.priority}"
        return self.loaded.method + gate + priority

    @cached_property
    def layers(self) -> list[int]:
        """The ancestor's layers in the learngene, counted from 0."""
        assert self.loaded.selection is not None
        return list(self.loaded.selection["layers"])

    def source_layers(self, depth: int) -> list[int]:
        """See :class:`~lgx.initialization.Initializer`."""
        return [self.layers[index] for index in selected(self.layers, depth, self.priority)]

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The learngene's layers, expanded to the descendant's depth."""
        tensors = self.tensors_for(architecture)
        layers = selected(self.layers, architecture.depth, self.priority)
        return take_layers(tensors, layers, architecture.layers)
