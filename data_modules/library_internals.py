"""Private names of torch and torchvision, with reasons; no other module of this package uses any."""

from collections.abc import Iterator
from typing import Any

from torch.utils.data import DataLoader


def until_error(loader: DataLoader[Any], batches: Iterator[Any]) -> Iterator[Any]:
    """Yield batches; the first error ends the loader's processes at once.

    PyTorch ends them when Python frees the loader. In a cycle of references, which an error with its traceback makes,
    the queues to the processes may be freed first: then the program waits five seconds for each process.
    """
    try:
        yield from batches
    except Exception:
        if hasattr(batches, "_shutdown_workers"):
            batches._shutdown_workers()
            loader._iterator = None  # the next epoch starts new ones
        raise


def labels_of(reader: Any) -> list[int]:
    """Class index of every example of a set that torchvision has opened; the public way may decode every image."""
    labels = next((getattr(reader, name) for name in ("targets", "labels", "_labels") if hasattr(reader, name)), None)
    return [int(label) for _, label in reader._samples] if labels is None else list(labels)
