"""Run a sweep: every run starts after the runs whose files it needs."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from pathlib import Path

from lgx.core.rows import Row, keep_rows, read_rows
from lgx.errors import UserError
from lgx.runs.executors import Failure
from lgx.runs.jobs import Job, change_of, make_job
from lgx.runs.pool import Pool
from lgx.runs.sweeps import RunSpec, Sweep, needed_files, needed_runs


def changed_runs(sweep: Sweep) -> dict[str, str]:
    """The finished runs whose options or configuration have changed: run folder -> change."""
    jobs = sweep_jobs(sweep, sweep.runs)
    return {folder: change for folder, job in jobs.items() if (change := change_of(job)) is not None}


def with_dependents(sweep: Sweep, folders: Iterable[str]) -> set[str]:
    """Some runs of a sweep, and all runs that need them."""
    needs = needed_runs(sweep)
    return {found for folder in folders for found in (folder, *_dependents(needs, folder))}


def sweep_jobs(sweep: Sweep, specs: Sequence[RunSpec], overwrite: bool = False) -> dict[str, Job]:
    """The jobs of some runs of a sweep: run folder -> job, in the order of ``specs``.

    Args:
        sweep: The sweep.
        specs: Its runs.
        overwrite: Whether runs in their folders that cannot be resumed are replaced.
    """
    needs = {spec.folder: needed_files(sweep, spec) for spec in specs}
    outputs = {
        spec.folder: {file for files in needs.values() for file, owner in files.items() if owner == spec.folder}
        for spec in specs
    }
    return {
        spec.folder: make_job(
            spec,
            sweep.runs_dir,
            sweep.experiment,
            name=f"{spec.name} seed {spec.seed}",
            needed=needs[spec.folder],
            outputs=outputs[spec.folder],
            overwrite=overwrite,
        )
        for spec in specs
    }


def run_sweep(
    sweep: Sweep, jobs: dict[str, Job], pool: Pool, results: Path, rows_of: Callable[[Job], list[Row]] | None = None
) -> None:
    """Run jobs of a sweep, each after the jobs that it needs; skip the jobs that need a failed one.

    Args:
        sweep: The sweep.
        jobs: Run folder -> job. Of several jobs that can start, the first in this order starts first.
        pool: Runs the jobs.
        results: CSV file to which the test rows of every finished run are added.
        rows_of: Gives the rows of a finished run that are added; by default its test rows.
    """
    specs = [spec for spec in sweep.runs if spec.folder in jobs]
    needs = {spec.folder: set(needed_files(sweep, spec).values()) & set(jobs) for spec in specs}
    sorter = TopologicalSorter(needs)
    sorter.prepare()
    order = {folder: number for number, folder in enumerate(jobs)}
    ready: list[str] = []
    failures: dict[str, Failure] = {}
    skipped: set[str] = set()
    with pool:
        while True:
            ready = sorted([*ready, *sorter.get_ready()], key=order.__getitem__)
            starting, ready = ready[: pool.free], ready[pool.free :]
            pool.start(jobs[folder] for folder in starting)
            ended = pool.wait()
            if not ended:
                break
            for job, outcome in ended:
                failure = outcome if isinstance(outcome, Failure) else _collect(job, results, rows_of or run_rows)
                if failure is None:
                    sorter.done(job.folder)
                    pool.progress.finished(job)
                    continue
                failures[job.folder] = failure
                pool.progress.failed(job, failure)
                for folder, needed in _dependents(needs, job.folder).items():
                    if folder not in skipped:
                        skipped.add(folder)
                        pool.progress.skipped(jobs[folder], jobs[needed].name)
    if failures:
        listed = "; ".join(f"{jobs[folder].name} ({failure.summary})" for folder, failure in failures.items())
        rest = f"; {len(skipped)} run(s) that need them were skipped" if skipped else ""
        raise UserError(
            f"{len(failures)} of {len(jobs)} runs failed: {listed}{rest}; the same command runs the missing runs"
        )


def _dependents(needs: dict[str, set[str]], failed: str) -> dict[str, str]:
    """All runs that need a failed run, directly or through others -> the run that each of them needs."""
    found: dict[str, str] = {}
    for folder in TopologicalSorter(needs).static_order():
        for needed in needs[folder]:
            if needed == failed or needed in found:
                found[folder] = needed
    return found


def run_rows(job: Job) -> list[Row]:
    """The test rows of a finished run; rows of its final test have the run's epochs, not the best epoch."""
    rows = read_rows(Path(job.folder) / "results.csv")
    last, tested = max((row.epochs for row in rows), default=0), [row for row in rows if row.split == "test"]
    final = max((row.epochs for row in tested), default=0)
    return [replace(row, epochs=last) if row.epochs == final > 0 else row for row in tested]


def _collect(job: Job, results: Path, rows_of: Callable[[Job], list[Row]]) -> Failure | None:
    """Add the rows of a run to those of the sweep, in place of its earlier ones."""
    folder = Path(job.folder).resolve()
    try:
        keep_rows(results, lambda row: Path(row.run).resolve() != folder, rows_of(job))
    except UserError as error:
        return Failure(str(error))
    return None
