"""Check a checkpoint's pickle before torch reads it.

``torch.load(..., weights_only=True)`` runs no code, but a few hundred bytes can make it use any amount of memory or
time: byte arrays of any length, compressed tensors, and tuples that hold the previous tuple twice, whose hash takes
twice as long at each level.
"""

import io
import pickletools
import zipfile
from pathlib import Path
from typing import IO, Any

LARGEST_TUPLE = 10**6
"""Most elements of a tuple; the elements of a tuple inside it count each time that it occurs."""

_ZIP = b"PK\x03\x04"
"""By these first bytes torch tells the formats apart; zipfile.is_zipfile also accepts a pickle before a zip file."""

MOST_STEPS = 2 * 10**6
"""Most operations of a pickle: one byte can make an object of 64; 10,000 tensors and their optimizer take 10^6."""

_TUPLES = {"TUPLE", "TUPLE1", "TUPLE2", "TUPLE3", "EMPTY_TUPLE"}


def check_checkpoint(source: Path | io.BytesIO) -> None:
    """Refuse a checkpoint that would take far more memory or time to read than its size suggests.

    Args:
        source: A file, or its bytes, that ``torch.save`` wrote, as a zip file or in the older format.

    Raises:
        ValueError: If it is compressed, or its pickle has millions of operations, or makes byte arrays or tuples of
            exponential size.
        Exception: Any error that a damaged file causes in pickle or zip.
    """
    with source.open("rb") if isinstance(source, Path) else source as file:
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        is_zip = file.read(4) == _ZIP
        file.seek(0)
        if not is_zip:
            for _ in range(5):  # magic number, version, system, the saved object, and the names of its storages
                _check_pickle(file)
            return
        with zipfile.ZipFile(file) as archive:
            members = archive.infolist()
            are_stored = all(member.compress_type == zipfile.ZIP_STORED for member in members)
            if not are_stored or sum(member.file_size for member in members) > size:
                raise ValueError("it is compressed")
            for member in members:
                if member.filename.endswith(".pkl"):
                    _check_pickle(io.BytesIO(archive.read(member)))  # read at once: pickletools reads bytes


def _check_pickle(file: IO[bytes]) -> None:
    """Follow the pickle's stack, where each tuple is replaced by its size."""
    stack: list[Any] = []  # None is a mark
    memo: dict[Any, Any] = {}
    for step, (opcode, argument, _) in enumerate(pickletools.genops(file)):
        if step == MOST_STEPS:
            raise ValueError(f"its pickle has more than {MOST_STEPS:,} operations")
        name, before = opcode.name, list(opcode.stack_before)
        if name == "GLOBAL" and str(argument).endswith(" bytearray"):
            raise ValueError("it makes byte arrays of any length")
        if name == "MARK":
            stack.append(None)
        elif "PUT" in name or name == "MEMOIZE":
            memo[len(memo) if name == "MEMOIZE" else argument] = stack[-1]
        elif "GET" in name:
            stack.append(memo[argument])
        else:
            taken: list[int] = []
            if pickletools.markobject in before:
                while (top := stack.pop()) is not None:
                    taken.append(top)
                before = before[: before.index(pickletools.markobject)]
            taken += [stack.pop() for _ in before]
            size = 1 + sum(taken) if name in _TUPLES else 1
            if size > LARGEST_TUPLE:
                raise ValueError("its tuples hold each other")
            stack += [size] * len(opcode.stack_after)
