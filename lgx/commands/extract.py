"""``lgx extract``: extract the learngene of a selection over data sets."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lgx.methods.lsamd.selection import Selection

_COMMAND = "lgx extract"


def extract(runs: list[str], *, out: str, threshold: float | None = None, force: bool = False) -> None:
    """Extract a learngene from one or several runs of LSAMD.

    The learngene consists of ancestor layers. A layer is taken if more than --threshold of the data sets use its base
    block. A run over several data sets has already written its learngene. This command applies another threshold, or
    merges runs with the same ancestor and different data sets.

    Example: lgx extract runs/lsamd_pocket/lsamd/seed0 --threshold 2 --out selected.learngene.safetensors

    Args:
        runs: Folders of runs (their last checkpoints are read), or checkpoints.
        out: Learngene file to write, ending in .learngene.safetensors.
        threshold: A number of data sets; by default half of all data sets.
        force: Replace what another command or program wrote. The command never replaces its inputs.
    """
    from lgx.artifacts.learngene import SUFFIX, is_learngene_of
    from lgx.errors import UserError
    from lgx.host.files import check_output
    from lgx.methods.lsamd.selection import Selection, SelectionRun, extract_learngene

    if not out.endswith(SUFFIX):
        raise UserError(f"--out: expected a path ending in {SUFFIX}, got {out}")
    check_output(out, _COMMAND, lambda file: is_learngene_of(file, _COMMAND), force=force, reads=runs)
    learngene = extract_learngene([SelectionRun.load(run) for run in runs], threshold)
    learngene.save(out, _COMMAND)
    assert learngene.selection is not None
    print_paths(Selection(learngene.selection["base_share"], learngene.selection["routing"]))
    print(f"{learngene.describe()}\n  file      {out}")


def print_paths(selection: "Selection") -> None:
    """Print which blocks every data set uses."""
    from rich.console import Console
    from rich.table import Table

    from lgx.methods.lsamd.selection import path_lines

    *lines, usage = path_lines(selection)
    table = Table("data set", *map(str, range(len(usage) - 1)), title="● base block used")
    for line in lines:
        table.add_row(*line)
    table.add_section()
    table.add_row(*usage)
    Console().print(table)
