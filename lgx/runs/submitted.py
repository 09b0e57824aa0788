"""Runs in processes of their own, through submitit: on this machine, or on a SLURM cluster."""

import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lgx.core.extras import sweep_extra
from lgx.errors import UserError
from lgx.runs.executors import Failure, Outcome, Ticket
from lgx.runs.work import PATIENCE, RunFailed, Work, do

_YEAR = 60 * 24 * 365  # minutes; submitit ends local jobs after two unless told otherwise
_GENERAL = {"name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node"}


class Local:
    """Processes of this machine, through submitit; they share its GPUs and its cores.

    Args:
        folder: Folder for submitit's files; those of a run that ended well are removed.
        limit: Runs at a time.

    Raises:
        UserError: If submitit is not installed.
    """

    interval = 0.2

    def __init__(self, folder: Path, limit: int) -> None:
        with sweep_extra("--parallel"):
            import submitit  # noqa: F401
        self.folder, self.limit = folder, limit
        self.gpus = _visible_gpus()
        self._slots = list(range(limit))

    def submit(self, works: Sequence[Work]) -> list[Ticket]:
        """Start a process for each."""
        from submitit import LocalExecutor

        tickets = []
        for work in works:
            slot = self._slots.pop(0)
            # A folder each: jobs are named by process numbers, and those come again.
            executor = LocalExecutor(_new_folder(self.folder))
            executor.update_parameters(timeout_min=_YEAR)
            with _deaf_to_ctrl_c():
                tickets.append(Ticket(work, executor.submit(do, work, self._environment(slot), PATIENCE), slot))
        return tickets

    def poll(self, ticket: Ticket) -> Outcome | None:
        """Whether the process has ended, and what it left."""
        if not ticket.job.done():
            return None
        self._slots.append(ticket.slot)
        if not ticket.job.paths.result_pickle.exists():
            return _failure(ticket, "its process was killed")
        outcome = _result(ticket)
        if not isinstance(outcome, Failure):
            shutil.rmtree(ticket.job.paths.folder, ignore_errors=True)
        return outcome

    def cancel(self, tickets: Sequence[Ticket]) -> None:
        """Tell all to save and end, and wait until they have."""
        deadline = time.monotonic() + PATIENCE + 5
        while (left := [t.job for t in tickets if not t.job.done()]) and time.monotonic() < deadline:
            for job in left:
                os.kill(int(job.job_id), signal.SIGTERM)  # again and again: a process that is starting misses it
            time.sleep(0.5)

    def _environment(self, slot: int) -> dict[str, str]:
        """The slot's share of GPUs and cores. submitit hides all GPUs, and torch would take all cores for each run."""
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        threads = os.environ.get("OMP_NUM_THREADS", str(max(1, cores // self.limit)))
        return {"CUDA_VISIBLE_DEVICES": ",".join(_share(self.gpus, slot, self.limit)), "OMP_NUM_THREADS": threads}


class Slurm:
    """Arrays of jobs on a SLURM cluster, through submitit.

    A run that SLURM preempts or that is out of time saves its state and queues itself again.

    Args:
        folder: Folder for submitit's files, which the cluster's machines see too.
        limit: Jobs of an array that run at a time.
        parameters: submitit's parameters: partition, timeout_min, gpus_per_node, ...

    Raises:
        UserError: If submitit is not installed, a parameter is wrong, or this is no machine of a cluster.
    """

    interval = 1.0

    def __init__(self, folder: Path, limit: int, parameters: Mapping[str, Any]) -> None:
        with sweep_extra("--cluster slurm"):
            from submitit import AutoExecutor
        if not {"timeout_min", "time"} & set(parameters):
            raise UserError("--slurm: give timeout_min, e.g. '{timeout_min: 240}'; a run that needs longer is requeued")
        self.limit = sys.maxsize  # all that can start is queued
        delay = parameters.get("signal_delay_s", 90)
        # SIGUSR1 is what runs listen to; submitit's own signal is another.
        flags = {"requeue": True, "signal": f"USR1@{delay}", **parameters.get("additional_parameters", {})}
        given = {"name": "lgx", "array_parallelism": limit, **parameters, "additional_parameters": flags}
        try:
            self.executor = AutoExecutor(_new_folder(folder), cluster="slurm")
            self.executor.update_parameters(
                **{key if key in _GENERAL else f"slurm_{key}": value for key, value in given.items()}
            )
        except RuntimeError as error:
            raise UserError("--cluster slurm: there is no srun here; run this on a machine of the cluster") from error
        except (NameError, AssertionError, ValueError, TypeError) as error:
            raise UserError(f"--slurm: {str(error).splitlines()[0].replace('slurm_', '')}") from error

    def submit(self, works: Sequence[Work]) -> list[Ticket]:
        """Queue an array."""
        try:
            with self.executor.batch():
                jobs = [self.executor.submit(do, work, {}, None) for work in works]
        except RuntimeError as error:
            raise UserError(f"--cluster slurm: sbatch refused: {' '.join(str(error).split())}") from error
        return [Ticket(work, job) for work, job in zip(works, jobs, strict=True)]

    def poll(self, ticket: Ticket) -> Outcome | None:
        """Whether the job has left a result, or SLURM says that it is over."""
        return _result(ticket) if ticket.job.done() else None

    def cancel(self, tickets: Sequence[Ticket]) -> None:
        """Cancel all."""
        for ticket in tickets:
            ticket.job.cancel(check=False)


def _new_folder(parent: Path) -> str:
    parent.mkdir(parents=True, exist_ok=True)
    return tempfile.mkdtemp(prefix=time.strftime("%Y%m%d-%H%M%S-"), dir=parent)


def _result(ticket: Ticket) -> Outcome:
    """What a job that is over returned or raised."""
    error = ticket.job.exception()
    if error is None:
        return "finished" if all(ticket.job.results()) else "elsewhere"
    from submitit.core.utils import FailedJobError

    if not isinstance(error, FailedJobError):
        return _failure(ticket, f"SLURM says {ticket.job.state}")
    if RunFailed.__name__ not in str(error):  # an error of ours, not of the run
        return Failure("it could not be run", str(ticket.job.paths.stderr))
    return _failure(ticket)


def _failure(ticket: Ticket, reason: str = "") -> Failure:
    """The run's log tells why it failed; submitit's where the run did not come so far."""
    log = Path(ticket.work.log)
    said = log.read_text(errors="replace").splitlines() if log.is_file() else []
    if not said:
        return Failure(reason or "it said nothing", str(ticket.job.paths.stderr))
    return Failure(reason or said[-1].strip(), str(log))


def _share(gpus: list[str], slot: int, slots: int) -> list[str]:
    """The GPUs of one of several runs; where there are too few, several runs have the same one."""
    if not gpus:
        return []
    return gpus[slot * len(gpus) // slots : (slot + 1) * len(gpus) // slots] or [gpus[slot % len(gpus)]]


def _visible_gpus() -> list[str]:
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [gpu for gpu in visible.split(",") if gpu]
    import torch

    return [str(gpu) for gpu in range(torch.cuda.device_count())]


@contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """Let processes that start inside the block never get SIGINT.

    A terminal would send it to all of them, and submitit then kills within a second what should save its state. They
    end when we say so.
    """
    old = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
