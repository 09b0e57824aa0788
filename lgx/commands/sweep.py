"""``lgx sweep``: many runs from one file, one after another."""

from pathlib import Path


def sweep(file: str, runs_dir: str = "runs", results: str | None = None, dry_run: bool = False) -> None:
    """Run every run of a sweep file that is not finished yet; go on where a stopped sweep stopped.

    A sweep file names an experiment, seeds, and runs; a run has a name, a configuration, options, and perhaps a
    matrix that multiplies it. Test results are added to a CSV file as they come: rows that stand there already
    are not measured again.

    Args:
        file: Sweep file, e.g. experiments/sws/fashion_mnist.yaml.
        runs_dir: Folder below which all runs lie.
        results: CSV file that collects the test rows; by default measured.csv in the experiment's folder.
        dry_run: Print the runs' command lines instead of running them.
    """
    import shlex

    from lgx.sweeps import load_sweep, pending_runs, run_arguments
    from lgx.training import run

    plan = load_sweep(file, runs_dir)
    collected = Path(results) if results else Path(runs_dir) / plan.experiment / "measured.csv"
    todo = pending_runs(plan, collected)
    print(f"sweep      {plan.experiment}: {len(todo)} of {len(plan.runs)} runs to do")
    for number, job in enumerate(todo, start=1):
        arguments = run_arguments(plan, job)
        print(f"\n[{number}/{len(todo)}] lgx {shlex.join(arguments)}", flush=True)
        if not dry_run:
            run(arguments)
            _leave_process_group()
            _collect(job.folder, collected)
    if not dry_run:
        print(f"\nresults    {collected}; compare them with `lgx compare {collected}`")


def _leave_process_group() -> None:
    """Forget the run's processes: what Lightning leaves of them would make the next run join a group that is gone."""
    import os

    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    for name in ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)


def _collect(folder: str, collected: Path) -> None:
    from lgx.evaluation.results import add_rows, read_rows

    rows = [row for row in read_rows(Path(folder) / "results.csv") if row.split == "test"]
    add_rows(collected, rows)
