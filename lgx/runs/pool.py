"""Runs that work at the same time."""

import signal
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Self

from lgx.errors import Preempted
from lgx.runs.executors import Executor, Outcome, Ticket
from lgx.runs.report import Report
from lgx.runs.work import Work, is_finished, is_locked


class Pool:
    """Starts runs and tells which ended; none is started twice.

    A run that a process left by an earlier command works on is waited for, and counts as one of ours; one that has
    finished already is not started at all. What still runs at the end of the ``with`` block is ended, too.

    Args:
        executor: Where they work.
        report: What is told of them.
    """

    def __init__(self, executor: Executor, report: Report) -> None:
        self.executor, self.report = executor, report
        self._tickets: list[Ticket] = []
        self._elsewhere: list[Work] = []
        self._found: list[Work] = []

    def __enter__(self) -> Self:
        self._sigterm = signal.signal(signal.SIGTERM, signal.default_int_handler)  # kill is as good as Ctrl-C
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        number = len(self._tickets)
        if number:
            self.report.stopping(number)
            self.executor.cancel(self._tickets)
        signal.signal(signal.SIGTERM, self._sigterm)
        if number and isinstance(error, KeyboardInterrupt):
            raise Preempted(f"interrupted; {number} run(s) were ended, the same command goes on with them", 130)

    @property
    def free(self) -> int:
        """Runs that may be started now."""
        return self.executor.limit - len(self._tickets) - len(self._elsewhere)

    def start(self, works: Iterable[Work]) -> None:
        """Start runs."""
        fresh = []
        for work in works:
            if is_locked(work.folder):
                self._elsewhere.append(work)
                self.report.waiting(work)
            elif is_finished(work):
                self._found.append(work)
            else:
                fresh.append(work)
                self.report.started(work)
        if fresh:
            self._tickets += self.executor.submit(fresh)

    def wait(self) -> list[tuple[Work, Outcome]]:
        """Wait until runs end.

        Returns:
            Those that did, and how; none if none is left.
        """
        while self._tickets or self._elsewhere or self._found:
            ended: list[tuple[Work, Outcome]] = [(work, "finished") for work in self._found]
            self._found = []
            ended += self._poll()
            free = [work for work in self._elsewhere if not is_locked(work.folder)]
            self._elsewhere = [work for work in self._elsewhere if work not in free]
            self.start(free)
            if ended:
                return ended
            if not self._found:
                time.sleep(self.executor.interval)
        return []

    def _poll(self) -> list[tuple[Work, Outcome]]:
        ended: list[tuple[Work, Outcome]] = []
        for ticket in list(self._tickets):
            outcome = self.executor.poll(ticket)
            if outcome is None:
                continue
            self._tickets.remove(ticket)
            if outcome == "elsewhere":
                self._elsewhere.append(ticket.work)
                self.report.waiting(ticket.work)
            else:
                ended.append((ticket.work, outcome))
        return ended
