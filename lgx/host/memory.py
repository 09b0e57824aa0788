"""The memory of this machine."""

import os
from contextlib import suppress
from pathlib import Path

_OF_CONTAINER = Path("/sys/fs/cgroup/memory.max")


def memory_bytes() -> int:
    """Bytes of memory that this process may have: those of the machine or, within a container, its limit."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no limit is written as the word max
        return min(total, int(_OF_CONTAINER.read_text(encoding="utf-8")))
    return total
