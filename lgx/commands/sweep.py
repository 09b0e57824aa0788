"""``lgx sweep``: many runs from one file."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from lgx.runs.executors import Executor
    from lgx.runs.report import Report


def sweep(
    file: str,
    runs_dir: str = "runs",
    results: str | None = None,
    dry_run: bool = False,
    parallel: int = 1,
    cluster: Literal["local", "slurm"] = "local",
    slurm: dict[str, Any] | None = None,
) -> None:
    """Run every run of a sweep file that is not finished yet; go on where a stopped sweep stopped.

    A sweep file names an experiment, seeds, and runs; a run has a name, a configuration, options, and perhaps a
    matrix that multiplies it. A run whose options name files of another run waits for it; if that one fails it is
    skipped, and all others go on. Test results are added to a CSV file as they come: rows that stand there already
    are not measured again.

    Args:
        file: Sweep file, e.g. experiments/sws/fashion_mnist.yaml.
        runs_dir: Folder below which all runs lie.
        results: CSV file that collects the test rows; by default measured.csv in the experiment's folder.
        dry_run: Print the runs' command lines instead of running them.
        parallel: Runs at a time. One runs in this process; several have processes of their own, share GPUs and cores,
            and write their output to files below the experiment's jobs folder. Of a SLURM array, jobs at a time.
        cluster: slurm submits the runs as job arrays.
        slurm: submitit's parameters of SLURM's jobs, e.g. '{partition: gpu, timeout_min: 240, gpus_per_node: 1}'.
    """
    import shlex

    from lgx.errors import UserError
    from lgx.runs.pool import Pool
    from lgx.runs.schedule import jobs_folder, run_all, works_of
    from lgx.runs.sweeps import load_sweep, pending_runs

    if parallel < 1:
        raise UserError(f"--parallel: at least 1 run at a time, got {parallel}")
    if slurm is not None and cluster != "slurm":
        raise UserError("--slurm: goes with --cluster slurm")
    plan = load_sweep(file, runs_dir)
    collected = Path(results) if results else Path(runs_dir) / plan.experiment / "measured.csv"
    works = works_of(plan, pending_runs(plan, collected))
    print(f"sweep      {plan.experiment}: {len(works)} of {len(plan.runs)} runs to do", flush=True)
    if dry_run:
        for number, work in enumerate(works.values(), start=1):
            print(f"\n[{number}/{len(works)}] lgx {shlex.join(work.arguments)}")
        return
    if works:
        executor = _executor(jobs_folder(runs_dir, plan.experiment) / "submitit", parallel, cluster, slurm)
        with _report(len(works), own_output=parallel == 1 and cluster == "local") as report:
            pool = Pool(executor, report)
            run_all(plan, works, pool, collected)
    print(f"\nresults    {collected}; compare them with `lgx compare {collected}`")


def _executor(folder: Path, parallel: int, cluster: str, slurm: dict[str, Any] | None) -> "Executor":
    from lgx.runs.executors import Here
    from lgx.runs.submitted import Local, Slurm

    if cluster == "slurm":
        return Slurm(folder, parallel, slurm or {})
    return Local(folder, parallel) if parallel > 1 else Here()


def _report(total: int, own_output: bool) -> "Report":
    import sys

    from lgx.runs.report import Bar, CommandLines, Report

    if own_output:
        return CommandLines(total)
    return Bar(total) if sys.stdout.isatty() else Report(total)
