"""``lgx compare``: tables and a report from any number of runs."""


def compare(
    runs: list[str],
    out: str | None = None,
    metric: str | None = None,
    split: str = "test",
    baseline: str | None = None,
    methods: str | None = None,
    cost: bool = False,
    force: bool = False,
) -> None:
    """Compare what runs have measured: methods × descendants × tasks, mean over seeds with a 95 % interval.

    Rows of a sweep with starts hold the costs of its runs. They are also compared at equal compute: is a learngene
    better than its alternatives, if its own training counts? All compute of a descendant is its training, the
    computation of its start, and its share of the training of all sources behind it.

    Example: lgx compare runs/demo_sws --baseline random --out report

    Args:
        runs: Folders (searched for results.csv at any depth) or results.csv files.
        out: Folder for report.html, or path ending in .html: the tables with figures in one page.
        metric: Metric to show; by default acc, or balanced_acc if the classes of a test have different sizes.
        split: Split to show: test, val or train. train has one metric, loss: the loss of each epoch.
        baseline: Method with which all others are compared, paired by seed, e.g. random.
        methods: Show only these methods, separated by commas, e.g. sws,simple_lg,random.
        cost: Also show the cost of each method's descendants: stored parameters, and FLOPs and hours of training.
        force: Replace a page that another command or program wrote.
    """
    from lgx.results.comparison import Options, compare_files
    from lgx.results.merging import find_results
    from lgx.results.report import print_report
    from lgx.results.report_files import report_path, write_comparison

    shown = tuple(methods.split(",")) if methods else ()
    options = Options(metric or "acc", split, baseline, shown, cost=cost, fair=metric is None)
    files = find_results(runs)
    page = report_path(out, force) if out else None
    comparison = compare_files(files, options)
    print_report(comparison.report)
    if page:
        write_comparison(comparison, page)
        print(f"wrote {page}")
