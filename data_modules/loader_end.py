"""The end of a loader's processes after an error."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader


def until_error(loader: DataLoader[Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Hand on batches; the first error ends the loader's processes at once.

    PyTorch ends them when Python frees the loader. In a cycle of references, which an error with its traceback makes,
    the queues to the processes may be freed first: then the program waits five seconds for each process.

    Args:
        loader: The loader.
        batches: Its iterator, as ``DataLoader.__iter__`` returns it.
    """
    try:
        yield from batches
    except Exception:
        if hasattr(batches, "_shutdown_workers"):
            batches._shutdown_workers()
            loader._iterator = None  # the next epoch starts new ones
        raise
