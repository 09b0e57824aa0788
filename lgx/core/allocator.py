"""Memory of training on the CPU."""

import ctypes
import sys

M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
"""Numbers of glibc's ``mallopt``."""


def keep_freed_memory() -> None:
    """Let glibc keep freed blocks of any size for the next step, in this process.

    By default it hands large blocks back to the system, so that every step of a training on the CPU faults all its
    activations in again. Does nothing where the C library is not glibc.
    """
    if not sys.platform.startswith("linux"):
        return
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return
    libc.mallopt(M_MMAP_THRESHOLD, 2**30)
    libc.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
    libc.mallopt(M_TOP_PAD, 2**26)
