"""Start and end of a program: garbage collections that find no garbage are left out."""

import atexit
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

RARE = (50_000, 20, 100)
"""Thresholds of Python's garbage collector with which it seldom looks at what imports have made."""

_usual: tuple[int, int, int] | None = None
"""The thresholds to return to; None unless the collector runs rarely."""


def collect_rarely() -> None:
    """Let Python's garbage collector run less often, until :func:`collect_as_usual`.

    The imports of PyTorch and Lightning make a million objects, which all stay. With Python's own thresholds the
    collector looks at them again and again, which takes a fifth of the time from a command to its first step.
    """
    global _usual
    _usual = _usual or gc.get_threshold()
    gc.set_threshold(*RARE)


def collect_as_usual() -> None:
    """Let the garbage collector run as often as before :func:`collect_rarely`; without it nothing changes."""
    global _usual
    if _usual is not None:
        gc.set_threshold(*_usual)
        _usual = None


@contextmanager
def quick_end() -> Iterator[None]:
    """Let the process end without a last garbage collection, which takes more than a second after a training run.

    All functions that are registered with ``atexit`` within the block run first, and the output is written. After an
    error that the block does not expect, and if the output cannot be written, Python ends the process as always.
    """
    code: int | None = None

    def end() -> None:
        if code is None:
            return
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:
            return
        os._exit(code)

    atexit.register(end)  # the first that is registered is called last
    try:
        yield
        code = 0
    except SystemExit as ending:
        code = ending.code & 0xFF if isinstance(ending.code, int) else int(ending.code is not None)
        raise
