"""Read and write safetensors files."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from lgx.core.schema import LINE
from lgx.errors import UserError
from lgx.host.failures import safetensors_errors, write_errors
from lgx.host.files import atomic_path, folder_beside

LARGEST_HEADER = 2**24
"""Most bytes of a header, which takes many times its size in memory; 10,000 tensors have one million."""


def write_safetensors(path: str | Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write tensors and metadata atomically."""
    # safetensors refuses tensors that share memory.
    copies = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary, write_errors(SafetensorError), folder_beside(temporary) as folder:
        save_file(copies, folder / "file", metadata=metadata)  # first writes a file with a random name beside it
        os.replace(folder / "file", temporary)
        if len(metadata) > 1:
            _order_metadata(temporary)


def _order_metadata(path: Path) -> None:
    """Sort the keys of the metadata: safetensors writes them in a random order, and a seed must give the same bytes."""
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header: dict[str, Any] = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        ordered = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode().ljust(size)
        assert len(ordered) == size  # the tensors follow
        file.seek(8)
        file.write(ordered)


def read_metadata(path: str | Path) -> dict[str, str]:
    """The metadata of a file; empty if it is no intact safetensors file."""
    try:
        return read_header(path)
    except UserError:
        return {}


def read_header(path: str | Path, place: str = "") -> dict[str, str]:
    """The metadata of an intact file; no tensor is read.

    Args:
        path: The file.
        place: What the user called it, for the message; default its path.
    """
    with _opened(path, place) as file:
        return dict(file.metadata() or {})


def read_safetensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read tensors and metadata."""
    with _opened(path) as file:
        tensors, metadata = {k: file.get_tensor(k) for k in file.keys()}, dict(file.metadata() or {})
    if wrong := next((name for name in tensors if not LINE.holds(name)), None):
        raise UserError(f"{path}: a tensor is called {wrong[:40]!r}, expected {LINE.words}; save it again")
    return tensors, metadata


@contextmanager
def _opened(path: str | Path, place: str = "") -> Iterator[Any]:
    path, place = Path(path), place or str(path)
    if not path.is_file():
        raise UserError(f"{place}: no such file")
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
    if LARGEST_HEADER < size <= path.stat().st_size:  # otherwise safetensors reports the damage
        raise UserError(f"{place}: has a header of {size:,} bytes, more than {LARGEST_HEADER:,}; do not trust it")
    with safetensors_errors(place), safe_open(path, framework="pt") as content:
        yield content
