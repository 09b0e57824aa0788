"""The paths of several runs of LSAMD: which base blocks each data set uses, and what two runs have in common."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
            runs: Folders of runs, or checkpoints.

        Raises:
            UserError: If one is not a run of LSAMD.
        """
        return cls({run: SelectionRun.load(run).selection for run in runs})

    @property
    def common(self) -> dict[str, list[int]]:
        """Layers whose base block both of two runs use, by data set; empty for other numbers of runs."""
        first, *others = self.selections.values()
        return common_layers(first, others[0]) if len(others) == 1 else {}

    def figure(self) -> "Figure":
        """Draw the preferences of all runs side by side (LSAMD, Fig. 7)."""
        from lgx.methods.lsamd.figure import routing_figure

        short = {"/".join(Path(run).parts[-2:]): selection for run, selection in self.selections.items()}
        titled = short if len(short) == len(self.selections) else self.selections
        return routing_figure({f"{name} ({s.routing})": s.base_share for name, s in titled.items()})

    def to_dict(self) -> dict[str, Any]:
        """Plain types: usage and paths of each run, and what two runs have in common."""
        runs = {run: {"usage": found.usage, "paths": found.paths} for run, found in self.selections.items()}
        return {"runs": runs, "common": self.common}


def path_lines(selection: Selection) -> list[list[str]]:
    """Lines of a table: for each data set ``●`` where a layer uses its base block, then the number of data sets.

    Args:
        selection: Paths of one or several runs.
    """
    lines = [[name, *("●" if base else "·" for base in used)] for name, used in selection.paths.items()]
    return [*lines, ["usage", *map(str, selection.usage)]]
