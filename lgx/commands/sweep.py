"""``lgx sweep``: execute many runs from one file."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from jsonargparse.typing import PositiveInt

from lgx.errors import UserError

if TYPE_CHECKING:
    from lgx.core.rows import Row
    from lgx.runs.executors import Executor
    from lgx.runs.jobs import Job
    from lgx.runs.sweeps import Sweep


def sweep(
    file: str,
    runs_dir: str = "runs",
    results: str | None = None,
    dry_run: bool = False,
    overwrite: bool = False,
    parallel: PositiveInt = 1,
    cluster: Literal["local", "slurm"] = "local",
    slurm: dict[str, Any] | None = None,
) -> None:
    """Execute all unfinished runs of a sweep file; the same command resumes a stopped sweep.

    A sweep file names an experiment, seeds and runs. A run has a name, a configuration, options, and optionally a
    matrix that turns it into several runs. If an option names a file of another run, that other run comes first. If it
    fails, the dependent run is skipped, and all other runs continue. Test results are added to a CSV file as runs
    finish. Runs with rows in this file are not repeated.

    A file with starts trains descendants of several sizes on several tasks from each start. Their costs are added
    beside the results, and training from scratch then gets as much compute as the costliest start.

    Example: lgx sweep experiments/sws/fashion_mnist.yaml --parallel 2

    Args:
        file: Sweep file, e.g. experiments/sws/fashion_mnist.yaml.
        runs_dir: Folder of all runs.
        results: CSV file that collects the test rows, or the validation rows of runs without a test; by default
            measured.csv in the experiment's folder.
        overwrite: Run again the finished runs whose options or configuration have changed, and the runs that need them.
        dry_run: Print the command lines instead of executing them.
        parallel: Number of runs at a time. With 1, runs use this process. With more, runs have their own processes,
            share GPUs and cores, and write their output to the experiment's jobs folder. On SLURM: jobs of an array at
            a time.
        cluster: slurm submits the runs as job arrays.
        slurm: submitit's parameters of SLURM jobs, e.g. '{partition: gpu, timeout_min: 240, gpus_per_node: 1}'.
    """
    from lgx.core.rows import read_rows
    from lgx.results.sweep_costs import longer_scratch, rows_with_costs
    from lgx.runs.sweeps import load_sweep

    if slurm is not None and cluster != "slurm":
        raise UserError("--slurm: needs --cluster slurm")
    loaded = load_sweep(file, runs_dir)
    collected = Path(results) if results else Path(runs_dir) / loaded.experiment / "measured.csv"
    executor = partial(_executor, parallel=parallel, slurm=(slurm or {}) if cluster == "slurm" else None)
    run = partial(_run_pending, file=file, results=collected, executor=executor, overwrite=overwrite, dry_run=dry_run)
    run(loaded, rows_of=rows_with_costs(loaded) if loaded.starts is not None else None)
    if loaded.starts is not None and collected.is_file() and not dry_run:
        whole = load_sweep(file, runs_dir, longer_scratch(loaded.starts, read_rows(collected)))
        if len(whole.runs) > len(loaded.runs):
            run(whole, rows_of=rows_with_costs(whole))
    if not dry_run:
        print(f"\nresults    {collected}; compare them with `lgx compare {collected}`")


def _run_pending(
    sweep: "Sweep",
    file: str,
    results: Path,
    executor: "Callable[[Path], Executor]",
    overwrite: bool,
    dry_run: bool,
    rows_of: "Callable[[Job], list[Row]] | None",
) -> None:
    """Run all runs of a sweep that are not finished, or print their command lines; for the options see :func:`sweep`.

    Args:
        sweep: The sweep.
        file: Its file, for messages.
        results: CSV file that collects rows.
        executor: Makes what executes the runs, given a folder for its files.
        overwrite: Run changed runs again.
        dry_run: Print the command lines only.
        rows_of: Gives the rows of a finished run that are added; by default its test rows.
    """
    import shlex

    from lgx.core.rows import keep_rows
    from lgx.runs.jobs import jobs_folder
    from lgx.runs.scheduler import Pool, changed_runs, run_sweep, sweep_jobs, with_dependents
    from lgx.runs.sweeps import pending_runs

    changed = changed_runs(sweep)
    if changed and not overwrite:
        first, change = next(iter(changed.items()))
        raise UserError(
            f"{file}: {len(changed)} finished run(s) have changed: {first} {change}; give --overwrite to repeat them, "
            "or another experiment"
        )
    replaced = with_dependents(sweep, changed)
    pending = {spec.folder for spec in pending_runs(sweep, results)} | replaced
    specs = [spec for spec in sweep.runs if spec.folder in pending]
    jobs = sweep_jobs(sweep, specs, overwrite=overwrite)
    print(f"sweep      {sweep.experiment}: {len(jobs)} of {len(sweep.runs)} runs to do", flush=True)
    if dry_run:
        for number, job in enumerate(jobs.values(), start=1):
            print(f"\n[{number}/{len(jobs)}] lgx {shlex.join(job.command)}")
        return
    places = {Path(folder).resolve() for folder in replaced}  # the rows stay pending if this sweep is stopped
    keep_rows(results, lambda row: Path(row.run).resolve() not in places)
    if jobs:
        folder = jobs_folder(sweep.runs_dir, sweep.experiment) / "submitit"
        run_sweep(sweep, jobs, Pool(executor(folder), len(jobs)), results, rows_of)


def _executor(folder: Path, parallel: int, slurm: dict[str, Any] | None) -> "Executor":
    """SLURM with these parameters, or this machine."""
    from lgx.runs.executors import InProcessExecutor, LocalExecutor
    from lgx.runs.slurm_executor import SlurmExecutor

    if slurm is not None:
        return SlurmExecutor(folder, parallel, slurm)
    return LocalExecutor(parallel) if parallel > 1 else InProcessExecutor()
