"""Run a sweep: every run starts after the runs whose files it needs, and several at the same time."""

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from graphlib import TopologicalSorter
from pathlib import Path
from types import TracebackType
from typing import Self

from lgx.core.rows import Row, keep_rows, read_rows
from lgx.errors import Preempted, UserError
from lgx.runs.executors import Executor, Failure, Outcome, Submission
from lgx.runs.jobs import Job, change_of, jobs_folder
from lgx.runs.sweeps import RunSpec, Sweep, needed_files, needed_runs, run_arguments


def changed_runs(sweep: Sweep) -> dict[str, str]:
    """The finished runs whose options or configuration have changed: run folder -> change."""
    jobs = sweep_jobs(sweep, sweep.runs)
    return {folder: change for folder, job in jobs.items() if (change := change_of(job)) is not None}


def with_dependents(sweep: Sweep, folders: Iterable[str]) -> set[str]:
    """Some runs of a sweep, and all runs that need them."""
    needs = needed_runs(sweep)
    return {run for folder in folders for run in (folder, *_dependents(needs, folder))}


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
    logs = jobs_folder(sweep.runs_dir, sweep.experiment)
    return {
        spec.folder: Job(
            name=f"{spec.name} seed {spec.seed}",
            folder=spec.folder,
            arguments=tuple(run_arguments(spec, sweep.runs_dir, sweep.experiment)),
            log=str(logs / spec.name / f"seed{spec.seed}.log"),
            inputs=(spec.config, *needs[spec.folder]),
            outputs=tuple(outputs[spec.folder]),
            overwrite=overwrite,
        )
        for spec in specs
    }


class Pool:
    """Starts jobs and returns those that ended, with a line for each; at its end it ends all jobs that still run.

    Args:
        executor: Runs the jobs.
        total: Number of all jobs, of which every line gives those that have ended.
    """

    def __init__(self, executor: Executor, total: int) -> None:
        self.executor = executor
        self.total = total
        self._ended = self._failures = 0
        self._start_times: dict[str, float] = {}
        self._submissions: list[Submission] = []

    def __enter__(self) -> Self:
        self._sigterm = signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM acts like Ctrl-C
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        number = len(self._submissions)
        if number:
            self._print("stopping", f"{number} run(s) save their state and end")
            self.executor.cancel(self._submissions)
        signal.signal(signal.SIGTERM, self._sigterm)
        if number and isinstance(error, KeyboardInterrupt):
            raise Preempted(f"interrupted; {number} run(s) were stopped, the same command resumes them", 130)

    @property
    def free(self) -> int:
        """Number of jobs that may start now."""
        return self.executor.limit - len(self._submissions)

    def start(self, jobs: Sequence[Job]) -> None:
        """Start jobs."""
        for job in jobs:
            self._start_times[job.folder] = time.monotonic()
            self._print("started", job.name)
        if jobs:
            self._submissions += self.executor.submit(jobs)

    def wait(self) -> list[tuple[Job, Outcome]]:
        """Wait until at least one job ends.

        Returns:
            The jobs that ended, with their outcomes; an empty list if no job is left.
        """
        while self._submissions:
            outcomes = [(submission, self.executor.poll(submission)) for submission in self._submissions]
            self._submissions = [submission for submission, outcome in outcomes if outcome is None]
            ended = [(submission.job, outcome) for submission, outcome in outcomes if outcome is not None]
            if ended:
                return ended
            time.sleep(self.executor.interval)
        return []

    def count(self, job: Job, failure: Failure | None = None) -> None:
        """Count a job that has ended."""
        seconds = time.monotonic() - self._start_times.pop(job.folder)
        self._ended += 1
        if failure is None:
            self._print("finished", f"{job.name} in {seconds:.0f} s")
        else:
            self._failures += 1
            self._print("failed", f"{job.name}: {failure.summary}")

    def skip(self, job: Job, needed: str) -> None:
        """Count a job that will not start because the job ``needed`` has failed."""
        self._ended += 1
        self._print("skipped", f"{job.name}: it needs {needed}")

    def _print(self, event: str, text: str) -> None:
        failed = f", {self._failures} failed" if self._failures else ""
        counts = f"{self._ended} of {self.total} done{failed}, {len(self._start_times)} running"
        print(f"{event:<11}{text} ({counts})", flush=True)


def run_sweep(
    sweep: Sweep, jobs: dict[str, Job], pool: Pool, results: Path, rows_of: Callable[[Job], list[Row]] | None = None
) -> None:
    """Run jobs of a sweep, each after the jobs that it needs; skip the jobs that need a failed one.

    Args:
        sweep: The sweep.
        jobs: Run folder -> job. Of several jobs that can start, the first in this order starts first.
        pool: Runs the jobs.
        results: CSV file to which rows of every finished run are added.
        rows_of: Gives the rows of a finished run that are added; by default its test rows. A run without them, e.g. to
            choose a learning rate, gives its validation rows, unless another run needs it.
    """
    specs = [spec for spec in sweep.runs if spec.folder in jobs]
    needs = {spec.folder: set(needed_files(sweep, spec).values()) & set(jobs) for spec in specs}
    sorter = TopologicalSorter(needs)
    sorter.prepare()
    needed_folders = set().union(*needed_runs(sweep).values())  # also by runs that have ended
    order = {folder: number for number, folder in enumerate(jobs)}
    ready: list[str] = []
    failures: dict[str, Failure] = {}
    skipped: set[str] = set()
    with pool:
        while True:
            ready = sorted([*ready, *sorter.get_ready()], key=order.__getitem__)
            starting, ready = ready[: pool.free], ready[pool.free :]
            pool.start([jobs[folder] for folder in starting])
            ended = pool.wait()
            if not ended:
                break
            for job, outcome in ended:
                failure = outcome if isinstance(outcome, Failure) else None
                if failure is None:
                    splits = ("test",) if job.folder in needed_folders else ("test", "val")
                    failure = _collect(job, results, rows_of or partial(run_rows, splits=splits))
                if failure is None:
                    sorter.done(job.folder)
                    pool.count(job)
                    continue
                failures[job.folder] = failure
                pool.count(job, failure)
                for folder, needed in _dependents(needs, job.folder).items():
                    if folder not in skipped:
                        skipped.add(folder)
                        pool.skip(jobs[folder], jobs[needed].name)
    if failures:
        listed = "; ".join(f"{jobs[folder].name} ({failure.summary})" for folder, failure in failures.items())
        rest = f"; {len(skipped)} run(s) that need them were skipped" if skipped else ""
        raise UserError(
            f"{len(failures)} of {len(jobs)} runs failed: {listed}{rest}; the same command runs the missing runs"
        )


def _dependents(needs: dict[str, set[str]], failed: str) -> dict[str, str]:
    """All runs that need a failed run, directly or through others -> the run that each of them needs."""
    dependents: dict[str, str] = {}
    for folder in TopologicalSorter(needs).static_order():
        for needed in needs[folder]:
            if needed == failed or needed in dependents:
                dependents[folder] = needed
    return dependents


def run_rows(job: Job, splits: Sequence[str] = ("test",)) -> list[Row]:
    """Rows of a finished run of the first split that has any; its final rows have the run's epochs, not the best one.

    Args:
        job: The run.
        splits: The splits, in the order of preference.
    """
    rows = read_rows(Path(job.folder) / "results.csv")
    last = max((row.epochs for row in rows), default=0)
    by_split = ([row for row in rows if row.split == split] for split in splits)
    measured = next(filter(None, by_split), [])
    final = max((row.epochs for row in measured), default=0)
    return [replace(row, epochs=last) if row.epochs == final > 0 else row for row in measured]


def _collect(job: Job, results: Path, rows_of: Callable[[Job], list[Row]]) -> Failure | None:
    """Add the rows of a run to those of the sweep, in place of its earlier ones."""
    folder = Path(job.folder).resolve()
    try:
        keep_rows(results, lambda row: Path(row.run).resolve() != folder, rows_of(job))
    except UserError as error:
        return Failure(str(error))
    return None
