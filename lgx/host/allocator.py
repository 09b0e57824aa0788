"""Settings of the memory allocator for training on the CPU."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
"""Parameter numbers of glibc's ``mallopt``."""


def keep_freed_memory() -> None:
    """Let glibc keep freed memory of any size for the next step, in this process.

    By default glibc returns large blocks to the system, and every training step on the CPU pays page faults for all its
    activations again. With another C library this function does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return
    libc.mallopt(M_MMAP_THRESHOLD, 2**30)
    libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    libc.mallopt(M_TOP_PAD, 2**26)
