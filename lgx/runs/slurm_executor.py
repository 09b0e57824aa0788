"""The executor that submits jobs to a SLURM cluster, through submitit."""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.runs.executors import Failure, Outcome, Submission, failure_of
from lgx.runs.jobs import Job, RunFailed, run_on_cluster

_PATIENCE = 600.0
"""Seconds for which a submission is repeated while SLURM's controller does not answer, as during its restart."""
_UNLISTED = "no such job any more"
_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT", _UNLISTED,
}  # fmt: skip
"""States of jobs that SLURM does not run again."""
_UNREACHABLE = (
    "Unable to contact slurm controller", "Connection refused", "Socket timed out", "Communication connection failure",
    "Zero Bytes were transmitted", "Backup controller", "in standby mode",
)  # fmt: skip
"""Parts of messages of SLURM's commands while its controller does not answer."""
_GENERAL = {"name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node"}


class SlurmExecutor:
    """Submits arrays of jobs to a SLURM cluster through submitit.

    A run that SLURM preempts, or that reaches its time limit, saves its state and is queued again.

    Args:
        folder: Folder for submitit's files, on a file system that the cluster's machines share.
        limit: Number of jobs of an array that run at the same time.
        parameters: submitit's parameters: partition, timeout_min, gpus_per_node, ...
    """

    interval = 1.0
    pause = 10.0
    """Seconds between two submissions while SLURM's controller does not answer."""

    def __init__(self, folder: Path, limit: int, parameters: Mapping[str, Any]) -> None:
        with extra("sweep", "--cluster slurm"):
            from submitit import AutoExecutor
        if not {"timeout_min", "time"} & set(parameters):
            raise UserError(
                "--slurm: timeout_min is missing; give e.g. '{timeout_min: 240}'; a run that needs longer is requeued"
            )
        self.limit = sys.maxsize  # every ready job is queued
        self._states = SlurmStates()
        delay = parameters.get("signal_delay_s", 90)
        minutes = parameters.get("timeout_min", parameters.get("time"))
        if isinstance(minutes, int | float) and isinstance(delay, int | float) and minutes * 60 <= delay:
            raise UserError(
                f"--slurm: timeout_min must be longer than the {delay} seconds of signal_delay_s, got {minutes}; "
                f"SLURM would end every run when it starts"
            )
        # Runs handle SIGUSR1; submitit's default is another signal.
        flags = {"requeue": True, "signal": f"USR1@{delay}", **parameters.get("additional_parameters", {})}
        settings = {"name": "lgx", "array_parallelism": limit, **parameters, "additional_parameters": flags}
        # If one process of a run fails, srun ends the others, which would wait for it.
        settings["srun_args"] = ["--kill-on-bad-exit=1", *parameters.get("srun_args", [])]
        folder.mkdir(parents=True, exist_ok=True)
        try:
            files = tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=folder)
            self.executor = AutoExecutor(files, cluster="slurm")
            self.executor.update_parameters(
                **{key if key in _GENERAL else f"slurm_{key}": value for key, value in settings.items()}
            )
        except RuntimeError as error:
            raise UserError("--cluster slurm: srun was not found; use a machine of a SLURM cluster") from error
        except (NameError, AssertionError, ValueError, TypeError) as error:
            raise UserError(f"--slurm: {str(error).splitlines()[0].replace('slurm_', '')}") from error

    def submit(self, jobs: Sequence[Job]) -> list[Submission]:
        """Queue an array of jobs; wait for SLURM's controller if it does not answer."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                with self.executor.batch():
                    handles = [self.executor.submit(run_on_cluster, job) for job in jobs]
                break
            except RuntimeError as error:
                answers = not any(part in str(error) for part in _UNREACHABLE)
                if answers or time.monotonic() > deadline:
                    reason = " ".join(str(error).split())
                    raise UserError(f"--cluster slurm: sbatch refused the jobs: {reason}") from error
            time.sleep(self.pause)
        for handle in handles:
            self._states.jobs.add(handle.job_id)
        return [Submission(job, handle) for job, handle in zip(jobs, handles, strict=True)]

    def poll(self, submission: Submission) -> Outcome | None:
        """How the job ended; None until all its processes have left results, or SLURM reports its end."""
        tasks = [submission.handle.task(number) for number in range(submission.handle.num_tasks)]
        ended = [task for task in tasks if _has_result(task)]
        job: str = submission.handle.job_id
        state = None if len(ended) == len(tasks) else self._states.end(job)
        if len(ended) < len(tasks) and state is None:
            return None
        self._states.jobs.discard(job)
        outcome = _outcome(submission, ended)
        lost = state is not None and not isinstance(outcome, Failure)
        return failure_of(submission.job, _stderr(submission), f"SLURM reports {state}") if lost else outcome

    def cancel(self, submissions: Sequence[Submission]) -> None:
        """Cancel jobs."""
        for submission in submissions:
            submission.handle.cancel(check=False)


class SlurmStates:
    """Finds ended jobs in the output of ``squeue``.

    submitit calls ``sacct``, which prints nothing on a cluster without an accounting database. It would wait forever
    for a job that was cancelled, or whose node failed.

    Two answers in a row must say that a job has ended. In the meantime a result that the job has written becomes
    visible on a shared file system, and a job that is being requeued is pending again.

    Attributes:
        interval: Seconds between two calls of ``squeue``.
        jobs: The jobs that are watched, ``100`` or ``100_1``.
    """

    interval = 15.0

    def __init__(self) -> None:
        self.jobs: set[str] = set()
        self._states: dict[str, str] = {}
        self._ended: dict[str, int] = {}
        self._next = 0.0
        self._reachable = True

    def end(self, job: str) -> str | None:
        """The state in which a watched job has ended; None while it may still run or be requeued."""
        if time.monotonic() >= self._next:
            self._ask()
            self._next = time.monotonic() + self.interval
        return self._states[job] if self._ended.get(job, 0) > 1 else None

    def _ask(self) -> None:
        numbers = ",".join(sorted({job.partition("_")[0] for job in self.jobs}))
        command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T", f"--jobs={numbers}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            message = "" if done.returncode == 0 or "Invalid job id" in done.stderr else done.stderr
        except (OSError, subprocess.TimeoutExpired) as error:
            message = str(error)
        if message:
            if self._reachable:  # once, not at every call
                shown = " ".join(message.split())
                print(f"waiting    SLURM does not answer ({shown}); the sweep tries again", file=sys.stderr, flush=True)
            self._reachable = False
            return
        self._reachable = True
        listed = dict(re.findall(r"^\s*(\w+)\|(\w+)\s*$", done.stdout, re.M))
        for job in self.jobs:
            self._states[job] = state = listed.get(job, _UNLISTED)
            self._ended[job] = self._ended.get(job, 0) + 1 if state in _ENDED else 0


def _has_result(task: Any) -> bool:
    """Whether a process of a job has left its result."""
    with suppress(OSError):  # a file system over the network then looks again for new files
        task.paths.folder.chmod(task.paths.folder.stat().st_mode)
    return bool(task.paths.result_pickle.exists())


def _outcome(submission: Submission, tasks: Sequence[Any]) -> Outcome:
    """The outcome of a job, from those of its processes that have left a result."""
    errors = [str(error) for task in tasks if (error := task.exception()) is not None]
    if not errors:
        return "finished"
    if not any(RunFailed.__name__ in error for error in errors):  # the run did not start
        return Failure("the run could not be started", _stderr(submission))
    return failure_of(submission.job, _stderr(submission))


def _stderr(submission: Submission) -> str:
    """File with a job's output besides the run's output."""
    return str(submission.handle.paths.stderr)
