"""Read and write safetensors files, and the record of a network's start beside them."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from lgx.artifacts.source_names import RECORD
from lgx.core.schema import LINE, MAPPING, check_fields, mapping_of
from lgx.errors import UserError
from lgx.host.failures import foreign_errors
from lgx.host.files import atomic_path
from lgx.host.safety import read_json

_TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.uint16: "U16", torch.uint32: "U32",
    torch.uint64: "U64", torch.complex64: "C64",
}  # fmt: skip


def write_safetensors(path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors and metadata atomically, always in the same order.

    The library's own writer orders metadata at random, refuses tensors that share memory, and leaves a second file
    behind where it is killed.
    """
    ordered = sorted(tensors.items(), key=lambda entry: (-entry[1].element_size(), entry[0]))  # each is aligned
    header: dict[str, Any] = {"__metadata__": dict(sorted(metadata.items()))}
    end = 0
    for name, tensor in ordered:
        start = end
        end = end + tensor.nbytes
        header[name] = {"dtype": _TYPES[tensor.dtype], "shape": [*tensor.shape], "data_offsets": [start, end]}
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text = text.ljust(-len(text) // 8 * -8)
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for _, tensor in ordered:
            file.write(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data)


def half_type(tensors: Mapping[str, Tensor]) -> torch.dtype | None:
    """The type of 16 bits that all floating-point tensors have; None if they have others."""
    types = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    return types.pop() if len(types) == 1 and types < {torch.float16, torch.bfloat16} else None


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
        return {name: file.get_tensor(name) for name in file.keys()}, dict(file.metadata() or {})


@contextmanager
def _opened(path: str | Path, place: str = "") -> Iterator[Any]:
    path, place = Path(path), place or str(path)
    if not path.is_file():
        raise UserError(f"{place}: no such file")
    remedy = "copy it again; pickled files are not read"
    with foreign_errors(place, "not an intact safetensors file", remedy), safe_open(path, framework="pt") as content:
        yield content


_AGAIN = "write it again with `lgx init`"
_FIELDS = {"method": LINE, "initializer": LINE, "arguments": MAPPING}


@dataclass(frozen=True)
class StartRecord:
    """The initializer of a network.

    Attributes:
        method: Name of the method in results.
        initializer: Name of the initializer's class.
        arguments: Its arguments, ``source`` among them.
        digests: Argument -> digest of the file of weights that it named.
    """

    method: str
    initializer: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write it into the folder of a network."""
        (folder / RECORD).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, place: str) -> "StartRecord | None":
        """The record in a folder; None at other places."""
        file = os.path.join(place, RECORD)
        if not os.path.isfile(file):  # unlike Path's, it accepts names that are not paths
            return None
        about = check_fields(read_json(Path(file), _AGAIN), _FIELDS, file, complete=True)
        digests = check_fields(about, {"digests": mapping_of(LINE)}, file).get("digests", {})
        return cls(about["method"], about["initializer"], about["arguments"], digests)
