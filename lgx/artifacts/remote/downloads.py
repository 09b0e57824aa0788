"""Whether lgx may download, what a download gives, and what is printed about it."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import NamedTuple

from lgx.errors import UserError
from lgx.host import launcher


class Fetched(NamedTuple):
    """A downloaded source.

    Attributes:
        path: The file or folder.
        pinned: The name of this version.
    """

    path: Path
    pinned: str


_allowed: ContextVar[bool] = ContextVar("downloads_allowed", default=True)


@contextmanager
def without_downloads() -> Iterator[None]:
    """In the block only what was downloaded before is read, and no server is asked."""
    token = _allowed.set(False)
    try:
        yield
    finally:
        _allowed.reset(token)


def are_allowed() -> bool:
    """Whether servers may be asked."""
    return _allowed.get()


def not_here(place: str) -> UserError:
    """The error for a source that would have to be downloaded."""
    return UserError(f"{place}: has not been downloaded yet; `lgx init --source {place} …` does")


def say(line: str) -> None:
    """Print a line to stderr, from the first process of a run only."""
    if launcher.rank() == 0:
        print(line, file=sys.stderr)
