"""A job: one ``lgx`` command line that an executor runs, and the file that marks it as finished."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.host.launcher import job_rank
from lgx.host.locks import INHERITED, locked
from lgx.host.safety import read_json
from lgx.host.signals import STOP, requeue_signal

GRACE = 30.0
"""Seconds in which a run must save its state and end after SIGTERM."""
ELSEWHERE = 75
"""Exit code of this module's program if another process works on the run."""


@dataclass(frozen=True)
class Job:
    """One ``lgx`` command line to run.

    Attributes:
        name: Name shown to the user, e.g. ``sws-8 seed 0``.
        folder: The run's folder.
        arguments: The command line without the program's name.
        log: File to which the output of the run is appended.
        inputs: Files that the run reads and that may change: its configuration, the learngenes of other runs.
        outputs: Files that the run writes and other runs read.
        overwrite: Whether a run in the folder that cannot be resumed is replaced.
    """

    name: str
    folder: str
    arguments: tuple[str, ...]
    log: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    overwrite: bool = False

    @property
    def command(self) -> list[str]:
        """The command line to run."""
        return [*self.arguments, *(["--overwrite"] if self.overwrite and self.arguments[0] == "fit" else [])]


class RunFailed(Exception):
    """A run ended with an exit code other than 0."""


def jobs_folder(runs_dir: str, experiment: str) -> Path:
    """Folder of the logs of runs that have their own process."""
    return Path(runs_dir) / experiment / "jobs"


def run_in_subprocess(job: Job, grace: float | None) -> bool:
    """Run a job in a new process and wait for it.

    The new process inherits the lock. The run therefore stays locked until its process ends, even if this process is
    killed.

    Args:
        job: The job.
        grace: This process forwards SIGTERM, and sends SIGKILL after this number of seconds; None on a cluster, which
            signals all processes of a job itself.

    Returns:
        True if the run is finished; False if another process works on it.

    Raises:
        RunFailed: If the run ended with an exit code other than 0.
        SystemExit: On a cluster, if the cluster ended the run, or the run ended with exit code 0 but is not finished:
            it may be queued again, and then has no result yet.
    """
    stop = threading.Event()
    signal.signal(requeue_signal(), lambda *_: None)  # meant for the run, which requeues itself
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    with locked(job.folder) as lock:
        if lock is None:
            return False
        if is_finished(job):
            return True
        if job_rank() == 0:
            _drop_former_rows(job)
        Path(job.log).parent.mkdir(parents=True, exist_ok=True)
        with open(job.log, "ab") as log, STOP.requeue_delayed():
            child = subprocess.Popen(
                [sys.executable, "-m", "lgx", *job.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, INHERITED: str(lock)},
                pass_fds=[lock],
            )
        code = _wait(child, stop, grace)
        if code and grace is None and stop.is_set():
            raise SystemExit(code if code > 0 else 128 - code)
        if code:
            raise RunFailed(f"{job.name} ended with exit code {code}; see {job.log}")
        if job_rank() == 0:
            # lgx fit writes its summary last, and removes it when it trains on.
            if job.arguments[0] == "fit" and not (Path(job.folder) / "summary.json").exists():
                raise SystemExit(0)
            mark_finished(job)
    return True


def run_in_process(job: Job) -> bool:
    """Run a job in this process.

    Returns:
        True if the run is finished; False if another process works on it.
    """
    with locked(job.folder) as lock:
        if lock is None:
            return False
        if not is_finished(job):
            from lgx.cli import run_command

            _drop_former_rows(job)
            os.environ[INHERITED] = str(lock)
            try:
                run_command(job.command)
            finally:
                del os.environ[INHERITED]
                _leave_process_group()
            mark_finished(job)
    return True


def is_finished(job: Job) -> bool:
    """Whether exactly this command line has finished, its inputs have not changed since, and its outputs exist."""
    if _read_mark(job) is None or change_of(job) is not None:
        return False
    unchanged = all(_modified(Path(file)) <= _modified(_mark_file(job)) for file in job.inputs[1:])
    return unchanged and all(Path(file).exists() for file in job.outputs)


def change_of(job: Job) -> str | None:
    """What has changed since the job finished, in words; None without a change, or before the end."""
    if (mark := _read_mark(job)) is None:
        return None
    former = mark["arguments"]
    if sorted(former) != sorted(job.arguments):
        added = [word for word in job.arguments if word not in former]
        removed = [word for word in former if word not in job.arguments]
        return f"ran with {' '.join(removed) or 'fewer options'}, now has {' '.join(added) or 'fewer options'}"
    if mark.get("config") != _digest(job):
        return f"{job.inputs[0]} has changed"
    return None


def mark_finished(job: Job) -> None:
    """Write the command line, and a digest of its configuration, to the run's folder: the job is finished."""
    mark = {"arguments": job.arguments, "config": _digest(job)}
    with atomic_path(_mark_file(job)) as temporary:
        temporary.write_text(json.dumps(mark) + "\n", encoding="utf-8")


def _read_mark(job: Job) -> dict[str, Any] | None:
    try:
        mark = read_json(_mark_file(job), "run the job again")
    except UserError:
        return None
    return mark if isinstance(mark, dict) and isinstance(mark.get("arguments"), list) else None


def _digest(job: Job) -> str:
    """Digest of the job's configuration file; empty without one."""
    try:
        return hashlib.sha256(Path(job.inputs[0]).read_bytes()).hexdigest() if job.inputs else ""
    except OSError:
        return ""


def _mark_file(job: Job) -> Path:
    return Path(job.folder) / "finished.json"


def _drop_former_rows(job: Job) -> None:
    """Remove the rows of other options from the folder of a test that is run again; ``lgx test`` only adds rows."""
    if job.overwrite and job.arguments[0] == "test":
        (Path(job.folder) / "results.csv").unlink(missing_ok=True)


def _modified(file: Path) -> int:
    """Time of a file's last modification in nanoseconds; 0 if the file is missing."""
    try:
        return file.stat().st_mtime_ns
    except OSError:
        return 0


def _wait(child: "subprocess.Popen[bytes]", stop: threading.Event, grace: float | None) -> int:
    """Wait for a process and return its exit code; end the process when ``stop`` is set, unless ``grace`` is None."""
    while True:
        with suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=0.5)
        if grace is not None and stop.is_set():
            child.terminate()
            with suppress(subprocess.TimeoutExpired):
                return child.wait(timeout=grace)
            child.kill()


def _leave_process_group() -> None:
    """Remove Lightning's process group and variables, which would make the next run join a group that has ended."""
    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    for name in ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)


if __name__ == "__main__":  # the process of a job on this machine
    try:
        sys.exit(0 if run_in_subprocess(Job(**json.loads(sys.argv[1])), GRACE) else ELSEWHERE)
    except RunFailed:
        sys.exit(1)  # its log has the reason
