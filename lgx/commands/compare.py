"""``lgx compare``: tables and a report from any number of runs."""

from lgx.results.comparison import Choice, show


def compare(
    runs: list[str],
    paper: str | None = None,
    out: str | None = None,
    metric: str = "acc",
    split: str = "test",
    baseline: str | None = None,
    methods: str | None = None,
    tasks: str | None = None,
    average: bool = False,
    cost: bool = False,
) -> None:
    """Show what runs have measured: methods × descendants × tasks, mean over seeds with a 95 % interval.

    Args:
        runs: Folders (searched for results.csv at any depth) or results.csv files.
        paper: Table of a paper to set beside, e.g. sws/table1 or tal/table2.
        out: Folder, or path ending in .html, to write report.html, results.md and results.csv (all rows) to.
        metric: Metric to show; acc is shown in percent.
        split: Split to show: test, val, or train (with --metric loss: what each epoch of training minimized).
        baseline: Method that all others are compared with, seed by seed, e.g. random.
        methods: Show only these methods, separated by commas, e.g. sws,simple_lg,random.
        tasks: Show only these tasks, separated by commas.
        average: Show each method's mean over tasks and architectures.
        cost: Also show what each method's descendants cost: parameters to store, epochs and MACs to train, and how
            many times that scratch and a pretraining of each would need.

    Raises:
        UserError: If there are no such runs, rows, table or method, or ``out`` cannot be written.
    """
    show(runs, Choice(metric, split, baseline, methods, tasks), paper, out, average, cost)
