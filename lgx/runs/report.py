"""What is told of runs while they work."""

import shlex
import time
from types import TracebackType
from typing import Self

from lgx.runs.executors import Failure
from lgx.runs.work import Work


class Report:
    """One line for every run that starts and ends, with counts.

    Args:
        total: Number of runs.
    """

    def __init__(self, total: int) -> None:
        self.total = total
        self.ended = self.failures = 0
        self._since: dict[str, float] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        pass

    def started(self, work: Work) -> None:
        """A run was submitted."""
        self._since[work.folder] = time.monotonic()
        self._say("started", work.name)

    def waiting(self, work: Work) -> None:
        """A process of another command works on a run."""
        self._since.pop(work.folder, None)
        self._say("waiting", f"{work.name}: another process works on it")

    def finished(self, work: Work, text: str = "") -> None:
        """A run has finished, perhaps before this command began."""
        since = self._since.pop(work.folder, None)
        self.ended += 1
        how = ", begun by an earlier command" if since is None else f" in {time.monotonic() - since:.0f} s"
        self._say("finished", f"{work.name}{how}{text and f': {text}'}")

    def failed(self, work: Work, failure: Failure) -> None:
        """A run has failed."""
        self._since.pop(work.folder, None)
        self.ended += 1
        self.failures += 1
        self._say("failed", f"{work.name}: {explain(failure)}")

    def skipped(self, work: Work, needs: str) -> None:
        """A run cannot be started, since one that it needs has failed."""
        self.ended += 1
        self._say("skipped", f"{work.name}: it needs {needs}")

    def stopping(self, number: int) -> None:
        """Runs are told to end."""
        self._say("stopping", f"{number} run(s) save their state and end")

    def counts(self) -> str:
        """How far it is."""
        failed = f", {self.failures} failed" if self.failures else ""
        return f"{self.ended} of {self.total} done{failed}, {len(self._since)} running"

    def _say(self, what: str, text: str) -> None:
        print(f"{what:<11}{text} ({self.counts()})", flush=True)


class CommandLines(Report):
    """The command line of every run before its own output."""

    def started(self, work: Work) -> None:
        """A run begins."""
        self._since[work.folder] = time.monotonic()
        print(f"\n[{self.ended + 1}/{self.total}] lgx {shlex.join(work.arguments)}", flush=True)


class Bar(Report):
    """A progress bar; above it what needs attention.

    Args:
        total: Number of runs.
    """

    def __init__(self, total: int) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        super().__init__(total)
        columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
        self._progress = Progress(*columns)
        self._task = self._progress.add_task("", total=total)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._progress.stop()

    def _say(self, what: str, text: str) -> None:
        if what not in ("started", "finished"):
            self._progress.console.print(f"{what:<11}{text}", markup=False, highlight=False)
        self._progress.update(self._task, completed=self.ended, description=self.counts())


def explain(failure: Failure) -> str:
    """A failure in a few words, and where to read more."""
    reason = failure.reason if len(failure.reason) < 200 else f"{failure.reason[:200]}…"
    return f"{reason}; log {failure.log}" if failure.log else reason
