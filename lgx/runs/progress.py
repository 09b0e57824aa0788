"""Progress of jobs, in lines."""

import time

from lgx.runs.executors import Failure
from lgx.runs.jobs import Job


class Progress:
    """Prints one line for every job that starts or ends, with counts.

    Args:
        total: Number of jobs.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.ended = self.failures = 0
        self._start_times: dict[str, float] = {}

    def started(self, job: Job) -> None:
        """A job was submitted."""
        self._start_times[job.folder] = time.monotonic()
        self._print("started", job.name)

    def waiting(self, job: Job) -> None:
        """A process of another command works on the run of a job."""
        self._start_times.pop(job.folder, None)
        self._print("waiting", f"{job.name}: another process works on it")

    def finished(self, job: Job) -> None:
        """A job has finished, perhaps before this command started."""
        started = self._start_times.pop(job.folder, None)
        self.ended += 1
        how = ", started by an earlier command" if started is None else f" in {time.monotonic() - started:.0f} s"
        self._print("finished", f"{job.name}{how}")

    def failed(self, job: Job, failure: Failure) -> None:
        """A job has failed."""
        self._start_times.pop(job.folder, None)
        self.ended += 1
        self.failures += 1
        self._print("failed", f"{job.name}: {failure.summary}")

    def skipped(self, job: Job, needed: str) -> None:
        """A job will not start because the job ``needed`` has failed."""
        self.ended += 1
        self._print("skipped", f"{job.name}: it needs {needed}")

    def stopping(self, number: int) -> None:
        """Running jobs were told to end."""
        self._print("stopping", f"{number} run(s) save their state and end")

    def counts(self) -> str:
        """Number of jobs that have ended, failed and run."""
        failed = f", {self.failures} failed" if self.failures else ""
        return f"{self.ended} of {self.total} done{failed}, {len(self._start_times)} running"

    def _print(self, event: str, text: str) -> None:
        print(f"{event:<11}{text} ({self.counts()})", flush=True)
