"""The interface of executors, which run jobs, and the executor that runs them in this process."""

import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from lgx.errors import Preempted, UserError
from lgx.host.failures import describe
from lgx.runs.jobs import Job, run_in_process

_LONGEST = 200
"""Characters of a failure's reason that a summary shows."""


@dataclass(frozen=True)
class Failure:
    """Why a job failed.

    Attributes:
        reason: The reason in one line.
        log: File with the details; None if they were printed.
    """

    reason: str
    log: str | None = None

    @property
    def summary(self) -> str:
        """The shortened reason and the name of the log."""
        reason = self.reason if len(self.reason) < _LONGEST else f"{self.reason[:_LONGEST]}…"
        return f"{reason}; log {self.log}" if self.log else reason


Outcome = Literal["finished", "elsewhere"] | Failure
"""How a job ended; ``elsewhere`` if another process already works on its run."""


@dataclass(frozen=True)
class Submission:
    """A submitted job.

    Attributes:
        job: The job.
        handle: The executor's own handle of it.
        slot: Number of its slot among the jobs that run at the same time.
    """

    job: Job
    handle: Any
    slot: int = 0


class Executor(Protocol):
    """Runs jobs.

    Attributes:
        limit: Greatest number of submitted jobs that have not ended.
        interval: Seconds between two polls.
    """

    limit: int
    interval: float

    def submit(self, jobs: Sequence[Job]) -> list[Submission]:
        """Start jobs."""

    def poll(self, submission: Submission) -> Outcome | None:
        """How a job ended; None while it runs. Must not be called again after it returned an outcome."""

    def cancel(self, submissions: Sequence[Submission]) -> None:
        """End jobs."""


class InProcessExecutor:
    """Runs one job after another in this process, which also prints their output."""

    limit = 1
    interval = 1.0

    def submit(self, jobs: Sequence[Job]) -> list[Submission]:
        """Run jobs to their end; an exception of a run is printed and becomes its failure."""
        return [Submission(job, self._run(job)) for job in jobs]

    def poll(self, submission: Submission) -> Outcome | None:
        """How the job ended."""
        outcome: Outcome = submission.handle
        return outcome

    def cancel(self, submissions: Sequence[Submission]) -> None:
        """Do nothing: every submitted job has ended."""

    def _run(self, job: Job) -> Outcome:
        try:
            return "finished" if run_in_process(job) else "elsewhere"
        except Preempted:  # ends the whole command, not only this job
            raise
        except Exception as error:
            reason = describe(error) or (str(error) if isinstance(error, UserError) else None)
            if reason is None:
                traceback.print_exc()
                return Failure(f"{type(error).__name__}: {error}")
            print(f"lgx {job.arguments[0]}: {reason}", file=sys.stderr, flush=True)
            return Failure(reason)
