"""Show the progress of long work and its expected end: a bar in a terminal, otherwise lines."""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TypeVar

from lgx.core.readable import lasting
from lgx.host import launcher

Item = TypeVar("Item")
FIRST, EVERY = 2.0, 10.0
"""Seconds until the first line and between lines; lines are also at least a tenth of the elapsed time apart."""


class Progress:
    """Lines on the standard error: ``testing      1,200 of 10,000 batches, 40 s left``.

    Args:
        words: What is done.
        total: Number of items; None if unknown.
        unit: What the items are.
        first: Seconds until the first line.

    Attributes:
        later: Later items of the same work; the time left includes them.
    """

    def __init__(self, words: str, total: int | None = None, unit: str = "batches", first: float = FIRST) -> None:
        self.words = words
        self.total = total
        self.unit = unit
        self.later = 0
        self.done = 0
        self._began = time.monotonic()
        self._next = self._began + first

    def advance(self) -> None:
        """Count a finished item, and print a line if it is due."""
        self.done += 1
        now = time.monotonic()
        if now < self._next or self.done == self.total:
            return
        elapsed = now - self._began
        self._next = now + max(EVERY, elapsed / 10)
        of, left = "", ""
        if self.total:
            seconds = elapsed * (self.total - self.done + self.later) / self.done
            of = f" of {self.total:,}"
            left = f", {lasting(seconds)} left"
        print(f"{self.words:<10} {self.done:,}{of} {self.unit}{left}", file=sys.stderr, flush=True)


def tracked(items: Iterable[Item], words: str, total: int | None = None, unit: str = "batches") -> Iterator[Item]:
    """Iterate over items and show the progress, of several processes that of the first.

    Args:
        items: What is worked on.
        words: What is done.
        total: Number of items; by default their length, if known.
        unit: What they are.
    """
    if launcher.rank():
        yield from items
        return
    count = len(items) if total is None and isinstance(items, Sized) else total
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import track

        yield from track(items, words, total=count, transient=True, console=Console(stderr=True))
        return
    progress = Progress(words, count, unit)
    for item in items:
        yield item
        progress.advance()
