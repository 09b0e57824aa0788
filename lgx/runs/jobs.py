"""A job: one ``lgx`` command line that an executor runs, and the file that marks it as finished."""

import hashlib
import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.host.launcher import job_rank
from lgx.host.locks import locked
from lgx.host.safety import read_json
from lgx.host.signals import REQUEUE, STOP


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

    @property
    def program(self) -> list[str]:
        """The command line of a new process that runs the job."""
        return [sys.executable, "-m", "lgx.runs.jobs", "--job", json.dumps(asdict(self))]


class RunFailed(Exception):
    """A run ended with an exit code other than 0."""


def jobs_folder(runs_dir: str, experiment: str) -> Path:
    """Folder of the logs of runs that have their own process."""
    return Path(runs_dir) / experiment / "jobs"


def run_job(job: Job) -> None:
    """Run a job in this process, after another process that works on its run; do nothing if it is then finished."""
    with locked(job.folder) as is_free:
        if not is_free:
            print(f"waiting    {job.name}: another process works on it", flush=True)
    with locked(job.folder, wait=True):
        if is_finished(job):
            return
        from lgx.cli import run_command

        if job_rank() == 0:
            _drop_former_rows(job)
        try:
            run_command(job.command)
        finally:
            _leave_process_group()
        if job_rank() == 0:
            mark_finished(job)


def run_on_cluster(job: Job) -> None:
    """Run a job in a new process and wait for it; the cluster signals both processes.

    Raises:
        RunFailed: If the run ended with an exit code other than 0.
        SystemExit: If the cluster ended the run, or it is not finished after exit code 0: it may be queued again,
            and then has no result yet.
    """
    stop = threading.Event()
    signal.signal(REQUEUE, lambda *_: None)  # meant for the run, which requeues itself
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    Path(job.log).parent.mkdir(parents=True, exist_ok=True)
    with open(job.log, "ab") as log:
        code = subprocess.run(job.program, stdin=subprocess.DEVNULL, stdout=log, stderr=log).returncode
    if code and stop.is_set():
        raise SystemExit(code if code > 0 else 128 - code)
    if code:
        raise RunFailed(f"{job.name} ended with exit code {code}; see {job.log}")
    if job_rank() == 0 and not is_finished(job):
        raise SystemExit(0)


def is_finished(job: Job) -> bool:
    """Whether exactly this command line has finished, its inputs have not changed since, and its outputs exist."""
    if _read_mark(job) is None or change_of(job) is not None:
        return False
    unchanged = all(_modified(Path(file)) <= _modified(_mark_file(job)) for file in job.inputs[1:])
    return unchanged and all(Path(file).exists() for file in job.outputs)


def change_of(job: Job) -> str | None:
    """What has changed since the job finished, in words; None without a change, or before the end."""
    mark = _read_mark(job)
    if mark is None:
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


def _leave_process_group() -> None:
    """Remove Lightning's process group and variables, which would make the next run join a group that has ended."""
    import torch.distributed

    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
    for name in ("LOCAL_RANK", "NODE_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        os.environ.pop(name, None)


if __name__ == "__main__":  # the process of a job, or a further process of its run, which Lightning starts
    from lgx.cli import main

    STOP.listen(REQUEUE)  # it would end a run that is still loading torch, or that has just finished
    if sys.argv[1] == "--job":
        described = Job(**json.loads(sys.argv[2]))
        main(described.command, lambda _: run_job(described))
    else:
        main()
