"""States of SLURM jobs, as ``squeue`` shows them.

submitit asks ``sacct``, which prints nothing on a cluster without an accounting database: a job that was cancelled, or
whose node failed, would then be waited for without end.
"""

import re
import subprocess
import sys
import time

_ENDED = {
    "BOOT_FAIL", "CANCELLED", "COMPLETED", "DEADLINE", "FAILED", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "REVOKED",
    "TIMEOUT",
}  # fmt: skip
"""States of jobs that SLURM does not run again."""
_UNLISTED = "no such job any more"
_UNREACHABLE = (
    "Unable to contact slurm controller", "Connection refused", "Socket timed out", "Communication connection failure",
    "Zero Bytes were transmitted", "Backup controller", "in standby mode",
)  # fmt: skip
"""Parts of messages of SLURM's commands while its controller does not answer."""


def is_unreachable(message: str) -> bool:
    """Whether a message of a SLURM command says that the controller does not answer, as during its restart."""
    return any(part in message for part in _UNREACHABLE)


class SlurmStates:
    """Finds jobs that SLURM has ended.

    Two answers in a row must say that a job has ended. In the meantime a result that the job has written becomes
    visible on a shared file system, and a job that is being requeued is pending again.

    Attributes:
        interval: Seconds between two calls of ``squeue``.
    """

    interval = 15.0

    def __init__(self) -> None:
        self._jobs: set[str] = set()
        self._states: dict[str, str] = {}
        self._ended: dict[str, int] = {}
        self._next = 0.0
        self._reachable = True
        self._held: set[str] = set()

    def watch(self, job: str) -> None:
        """Include a job, ``100`` or ``100_1``, in the following calls."""
        self._jobs.add(job)

    def forget(self, job: str) -> None:
        """Leave a job out of the following calls."""
        self._jobs.discard(job)

    def end(self, job: str) -> str | None:
        """The state in which a watched job has ended; None while it may still run or be requeued."""
        if time.monotonic() >= self._next:
            self._ask()
            self._next = time.monotonic() + self.interval
        return self._states[job] if self._ended.get(job, 0) > 1 else None

    def _ask(self) -> None:
        numbers = ",".join(sorted({job.partition("_")[0] for job in self._jobs}))
        command = ["squeue", "--noheader", "--array", "--states=all", "--format=%i|%T|%r", f"--jobs={numbers}"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60)
            message = "" if done.returncode == 0 or "Invalid job id" in done.stderr else done.stderr
        except (OSError, subprocess.TimeoutExpired) as error:
            message = str(error)
        if message:
            if self._reachable:  # once, not at every call
                shown = " ".join(message.split())
                print(f"waiting    SLURM does not answer ({shown}); the sweep asks again", file=sys.stderr, flush=True)
            self._reachable = False
            return
        self._reachable = True
        listed = {job: (state, why) for job, state, why in re.findall(r"^\s*(\w+)\|(\w+)\|(.*)$", done.stdout, re.M)}
        for job in self._jobs:
            state, why = listed.get(job, (_UNLISTED, ""))
            self._states[job] = state
            self._ended[job] = self._ended.get(job, 0) + 1 if state in _ENDED or state == _UNLISTED else 0
            self._tell_if_held(job, why.strip())

    def _tell_if_held(self, job: str, why: str) -> None:
        """Say once that a job will not start by itself: someone holds it, or SLURM could not start it."""
        if "held" not in why.lower():
            self._held.discard(job)
        elif job not in self._held:
            self._held.add(job)
            print(f"waiting    SLURM holds job {job} ({why}); `scontrol release {job}` starts it", flush=True)
