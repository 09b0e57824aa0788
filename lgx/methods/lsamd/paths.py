"""The paths of several runs of LSAMD: which base blocks each data set uses, and what two runs have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from lgx.methods.lsamd.agreement import Agreement, Chance, against_chance, agreement, ranked_layers
from lgx.methods.lsamd.selection import Selection, SelectionRun, common_layers

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class RunPaths:
    """Paths of runs.

    Attributes:
        selections: Paths by the name that the user gave the run.
    """

    selections: dict[str, Selection]

    @classmethod
    def load(cls, runs: Sequence[str]) -> "RunPaths":
        """Read the paths of at least one run.

        Args:
            runs: Folders of runs, or checkpoints. Several that are joined by ``+`` are one selection: runs over other
                data sets with the same routing.

        Raises:
            UserError: If one is not a run of LSAMD, or those of one selection do not fit together.
        """
        return cls({joined: _selection(_parts(joined)) for joined in runs})

    @property
    def common(self) -> dict[str, list[int]]:
        """Layers whose base block both of two runs use, by data set; empty for other numbers of runs."""
        first, *others = self.selections.values()
        return common_layers(first, others[0]) if len(others) == 1 else {}

    def figure(self) -> "Figure":
        """Draw the preferences of all runs side by side (LSAMD, Fig. 7)."""
        from lgx.methods.lsamd.figure import routing_figure

        short = {_title(run): selection for run, selection in self.selections.items()}
        titled = short if len(short) == len(self.selections) else self.selections
        return routing_figure({f"{name} ({s.routing})": s.base_share for name, s in titled.items()})

    @property
    def chance(self) -> dict[str, Chance | None]:
        """Usage of each run compared with coin flips."""
        return {run: against_chance(selection) for run, selection in self.selections.items()}

    @property
    def agreements(self) -> dict[tuple[str, str], Agreement]:
        """What every two runs with a common data set have in common."""
        pairs = combinations(self.selections.items(), 2)
        return {(a, b): agreement(x, y) for (a, x), (b, y) in pairs if x.paths.keys() & y.paths.keys()}

    @property
    def ranked(self) -> list[int]:
        """The layers from the one whose own block is needed least; empty where swaps were not measured."""
        return ranked_layers(list(self.selections.values()))

    def statistics_lines(self) -> list[str]:
        """Sentences on what the runs found."""
        lines = []
        for run, chance in self.chance.items():
            found = "one kind of block alone" if chance is None else f"χ² {chance.statistic:.1f}, p = {chance.p:.3f}"
            lines.append(f"{run}: usage against coin flips: {found}")
        for (one, other), both in self.agreements.items():
            kappa, rho = ("not defined" if value is None else f"{value:+.2f}" for value in (both.kappa, both.rho))
            lines.append(f"{one} and {other}: κ of the paths {kappa}, Spearman's ρ of the swap profiles {rho}")
        if self.ranked:
            lines.append(f"layers from the one whose own block is needed least: {' '.join(map(str, self.ranked))}")
        return lines


def _parts(joined: str) -> list[str]:
    """The runs of one selection; a folder may have a ``+`` in its own name."""
    return [joined] if Path(joined).exists() else joined.split("+")


def _selection(runs: Sequence[str]) -> Selection:
    return reduce(Selection.merged, (SelectionRun.load(run).selection for run in runs))


def _title(joined: str) -> str:
    first, *others = _parts(joined)
    return f"{'/'.join(Path(first).parts[-2:])}{f' and {len(others)} more' if others else ''}"


def path_lines(selection: Selection) -> list[list[str]]:
    """Lines of a table: for each data set ``●`` where a layer uses its base block, then the number of data sets.

    Args:
        selection: Paths of one or several runs.
    """
    lines = [[name, *("●" if base else "·" for base in used)] for name, used in selection.paths.items()]
    return [*lines, ["usage", *map(str, selection.usage)]]
