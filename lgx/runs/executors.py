"""The interface of executors, which run jobs, and the executors of this machine: in this process or in several."""

import os
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from lgx.errors import Preempted, UserError
from lgx.host.failures import describe
from lgx.runs.jobs import Job, run_job

GRACE = 30.0
"""Seconds in which a run must save its state and end after SIGTERM."""
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


Outcome = Literal["finished"] | Failure
"""How a job ended."""


def failure_of(job: Job, other_log: str | None = None, reason: str = "") -> Failure:
    """The failure of a job whose run wrote a log.

    Args:
        job: The job.
        other_log: File with the details if the run wrote nothing.
        reason: The reason; by default the last line of the log.
    """
    log = Path(job.log)
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.is_file() else []
    if not lines:
        return Failure(reason or "it printed nothing", other_log)
    return Failure(reason or lines[-1].strip(), str(log))


@dataclass(frozen=True)
class Submission:
    """A submitted job.

    Attributes:
        job: The job.
        handle: The executor's handle of it.
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
        return  # nothing to do where every submitted job has ended


class InProcessExecutor(Executor):
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

    def _run(self, job: Job) -> Outcome:
        try:
            run_job(job)
            return "finished"
        except Preempted:  # ends the whole command, not only this job
            raise
        except Exception as error:
            reason = describe(error) or (str(error) if isinstance(error, UserError) else None)
            if reason is None:
                traceback.print_exc()
                return Failure(f"{type(error).__name__}: {error}")
            print(f"lgx {job.arguments[0]}: {reason}", file=sys.stderr, flush=True)
            return Failure(reason)


class LocalExecutor:
    """Runs every job in a process of its own; the processes share the GPUs and the cores of this machine.

    A terminal's Ctrl-C does not reach the processes: SIGTERM ends them, which lets a run save its state.

    Args:
        limit: Number of jobs that run at the same time.
    """

    interval = 0.2

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._gpus = _visible_gpus()
        self._slots = list(range(limit))

    def submit(self, jobs: Sequence[Job]) -> list[Submission]:
        """Start a process for each job; it outlives this process."""
        return [self._start(job, self._slots.pop(0)) for job in jobs]

    def _start(self, job: Job, slot: int) -> Submission:
        Path(job.log).parent.mkdir(parents=True, exist_ok=True)
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        threads = str(max(1, cores // self.limit))  # torch would use all cores in every run
        gpus = ",".join(_share(self._gpus, slot, self.limit))
        environment = {"OMP_NUM_THREADS": threads, **os.environ, "CUDA_VISIBLE_DEVICES": gpus}
        with open(job.log, "ab") as log:
            process = subprocess.Popen(
                job.program, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, process_group=0
            )
        return Submission(job, process, slot)

    def poll(self, submission: Submission) -> Outcome | None:
        """How the process ended; None while it runs."""
        code = submission.handle.poll()
        if code is None:
            return None
        self._slots.append(submission.slot)
        return failure_of(submission.job, reason="its process was killed" if code < 0 else "") if code else "finished"

    def cancel(self, submissions: Sequence[Submission]) -> None:
        """Send SIGTERM to all processes, wait until they have saved their state, and end those that have not."""
        for submission in submissions:
            submission.handle.terminate()
        deadline = time.monotonic() + GRACE
        for submission in submissions:
            try:
                submission.handle.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                submission.handle.kill()


def _share(gpus: list[str], slot: int, slots: int) -> list[str]:
    """The GPUs of one slot; if there are fewer GPUs than slots, several slots share a GPU."""
    if not gpus:
        return []
    return gpus[slot * len(gpus) // slots : (slot + 1) * len(gpus) // slots] or [gpus[slot % len(gpus)]]


def _visible_gpus() -> list[str]:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [gpu for gpu in visible.split(",") if gpu]
    import torch

    return [str(gpu) for gpu in range(torch.cuda.device_count())]
