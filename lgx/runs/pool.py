"""Jobs that run at the same time."""

import signal
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from lgx.errors import Preempted
from lgx.host.locks import is_locked
from lgx.runs.executors import Executor, Outcome, Submission
from lgx.runs.jobs import Job, is_finished
from lgx.runs.progress import Progress


class Pool:
    """Starts jobs and returns those that ended; no run is executed twice.

    If a process of an earlier command still works on a run, the pool waits for it and counts it as a running job. A
    job that has already finished is not started. At the end of the ``with`` block the pool ends all jobs that still
    run.

    Args:
        executor: Runs the jobs.
        progress: Shows their progress.
    """

    def __init__(self, executor: Executor, progress: Progress) -> None:
        self.executor, self.progress = executor, progress
        self._submissions: list[Submission] = []
        self._elsewhere: list[Job] = []
        self._already_finished: list[Job] = []

    def __enter__(self) -> Self:
        self._sigterm = signal.signal(signal.SIGTERM, signal.default_int_handler)  # SIGTERM acts like Ctrl-C
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        number = len(self._submissions)
        if number:
            self.progress.stopping(number)
            self.executor.cancel(self._submissions)
        signal.signal(signal.SIGTERM, self._sigterm)
        if number and isinstance(error, KeyboardInterrupt):
            raise Preempted(f"interrupted; {number} run(s) were stopped, the same command resumes them", 130)

    @property
    def free(self) -> int:
        """Number of jobs that may start now."""
        return self.executor.limit - len(self._submissions) - len(self._elsewhere)

    def start(self, jobs: Iterable[Job]) -> None:
        """Start jobs."""
        fresh = []
        for job in jobs:
            if is_locked(job.folder):
                self._elsewhere.append(job)
                self.progress.waiting(job)
            elif is_finished(job):
                self._already_finished.append(job)
            else:
                fresh.append(job)
                self.progress.started(job)
        if fresh:
            self._submissions += self.executor.submit(fresh)

    def wait(self) -> list[tuple[Job, Outcome]]:
        """Wait until at least one job ends.

        Returns:
            The jobs that ended, with their outcomes; an empty list if no job is left.
        """
        while self._submissions or self._elsewhere or self._already_finished:
            ended: list[tuple[Job, Outcome]] = [(job, "finished") for job in self._already_finished]
            self._already_finished = []
            ended += self._poll()
            unlocked = [job for job in self._elsewhere if not is_locked(job.folder)]
            self._elsewhere = [job for job in self._elsewhere if job not in unlocked]
            self.start(unlocked)
            if ended:
                return ended
            if not self._already_finished:
                time.sleep(self.executor.interval)
        return []

    def _poll(self) -> list[tuple[Job, Outcome]]:
        ended: list[tuple[Job, Outcome]] = []
        for submission in list(self._submissions):
            outcome = self.executor.poll(submission)
            if outcome is None:
                continue
            self._submissions.remove(submission)
            if outcome == "elsewhere":
                self._elsewhere.append(submission.job)
                self.progress.waiting(submission.job)
            else:
                ended.append((submission.job, outcome))
        return ended
