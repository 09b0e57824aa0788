"""Running a sweep: every run after those that it needs."""

from graphlib import TopologicalSorter
from pathlib import Path

from lgx.core.rows import add_rows, read_rows
from lgx.errors import UserError
from lgx.runs.executors import Failure
from lgx.runs.pool import Pool
from lgx.runs.report import explain
from lgx.runs.sweeps import RunSpec, Sweep, needed_files, run_arguments
from lgx.runs.work import Work


def works_of(sweep: Sweep, jobs: list[RunSpec]) -> dict[str, Work]:
    """What is to be run for some runs of a sweep: folder -> work, in the sweep's order."""
    logs = jobs_folder(sweep.runs_dir, sweep.experiment)
    needs = {job.folder: needed_files(sweep, job) for job in jobs}
    return {
        job.folder: Work(
            name=f"{job.name} seed {job.seed}",
            folder=job.folder,
            arguments=tuple(run_arguments(sweep, job)),
            log=str(logs / job.name / f"seed{job.seed}.log"),
            inputs=(job.config, *needs[job.folder]),
            outputs=tuple({file for files in needs.values() for file, owner in files.items() if owner == job.folder}),
        )
        for job in jobs
    }


def jobs_folder(runs_dir: str, experiment: str) -> Path:
    """Where logs of runs that have processes of their own lie."""
    return Path(runs_dir) / experiment / "jobs"


def run_all(sweep: Sweep, works: dict[str, Work], pool: Pool, results: Path) -> None:
    """Run all, each when those that it needs have finished, first come first; what a failed run leaves undone is left.

    Args:
        sweep: The sweep.
        works: What is to be run, in order.
        pool: Where.
        results: CSV file that collects the test rows of runs as they finish.

    Raises:
        UserError: If runs failed; the sentence lists them and their logs.
    """
    needs = {
        job.folder: set(needed_files(sweep, job).values()) & set(works) for job in sweep.runs if job.folder in works
    }
    sorter = TopologicalSorter(needs)
    sorter.prepare()
    order = {folder: number for number, folder in enumerate(works)}
    ready: list[str] = []
    failures: dict[str, Failure] = {}
    skipped: dict[str, str] = {}
    with pool:
        while True:
            ready = sorted([*ready, *sorter.get_ready()], key=order.__getitem__)
            starting, ready = ready[: pool.free], ready[pool.free :]
            pool.start(works[folder] for folder in starting)
            ended = pool.wait()
            if not ended:
                break
            for work, outcome in ended:
                failure = outcome if isinstance(outcome, Failure) else _collect(work, results)
                if failure is None:
                    sorter.done(work.folder)
                    pool.report.finished(work)
                    continue
                failures[work.folder] = failure
                pool.report.failed(work, failure)
                for folder, need in _dependants(needs, work.folder).items():
                    if folder not in skipped:
                        skipped[folder] = need
                        pool.report.skipped(works[folder], works[need].name)
    if failures:
        listed = "; ".join(f"{works[folder].name} ({explain(failure)})" for folder, failure in failures.items())
        left = f"; {len(skipped)} that need them were skipped" if skipped else ""
        raise UserError(f"{len(failures)} of {len(works)} runs failed: {listed}{left}; the same command goes on")


def _dependants(needs: dict[str, set[str]], failed: str) -> dict[str, str]:
    """All runs that need a run, directly or through others -> the run for whose sake they cannot be started."""
    found: dict[str, str] = {}
    for folder in TopologicalSorter(needs).static_order():
        for need in needs[folder]:
            if need == failed or need in found:
                found[folder] = need
    return found


def _collect(work: Work, results: Path) -> Failure | None:
    """Add a run's test rows to those of the sweep."""
    try:
        rows = read_rows(Path(work.folder) / "results.csv")
    except UserError as error:
        return Failure(str(error))
    add_rows(results, [row for row in rows if row.split == "test"])
    return None
