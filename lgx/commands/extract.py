"""``lgx extract``: the learngene of a search over data sets."""

import json as json_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lgx.methods.lsamd.selection import Selection


def extract(runs: list[str], *, out: str, threshold: float | None = None, json: bool = False) -> None:
    """Extract a learngene from one or several runs of LSAMD.

    A layer of the ancestor joins the learngene where more than a threshold of the data sets of all runs use its base
    block. A run over several data sets has extracted its learngene by itself: this command takes another threshold, or
    merges runs that searched the same ancestor on different data sets.

    Args:
        runs: Folders of the runs, whose best checkpoints count, or checkpoints.
        out: Learngene file to write, ending in .learngene.safetensors.
        threshold: A layer is taken if more data sets than this use its base block; half of them by default.
        json: Print JSON instead of a table.

    Raises:
        UserError: If a run is no search, the runs do not belong together, or no layer or every layer would be taken.
    """
    from lgx.artifacts.learngene import SUFFIX, Learngene
    from lgx.errors import UserError
    from lgx.methods.lsamd.selection import Selection, SelectionRun
    from lgx.methods.lsamd.selection import extract as extract_learngene

    if not out.endswith(SUFFIX):
        raise UserError(f"--out: a path ending in {SUFFIX}, got {out}")
    learngene = extract_learngene([SelectionRun.load(run) for run in runs], threshold)
    learngene.save(out)
    assert learngene.selection is not None
    if json:
        print(json_module.dumps(Learngene.load(out).selection, indent=1))
        return
    print_paths(Selection(learngene.selection["base_share"], learngene.selection["routing"]))
    print(f"{learngene.describe()}\n  file      {out}")


def print_paths(selection: "Selection") -> None:
    """Print which blocks every data set uses."""
    from rich.console import Console
    from rich.table import Table

    table = Table("data set", *(str(layer) for layer in range(len(selection.usage))), title="● base block used")
    for name, used in selection.paths.items():
        table.add_row(name, *("●" if base else "·" for base in used))
    table.add_section()
    table.add_row("usage", *map(str, selection.usage))
    Console().print(table)
