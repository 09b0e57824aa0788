"""Tokens of plain texts in a memory-mapped file of the cache, and sequences of equal length from them."""

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_info
from numpy.typing import NDArray
from torch import Tensor

from data_modules.files.errors import guarded
from data_modules.splits import Indices
from data_modules.text.documents import documents
from data_modules.text.tokens import encode, end_of, size_of
from lgx.errors import UserError
from lgx.host.cache import cached_file, make_room, stamp
from lgx.host.files import atomic_path
from lgx.host.locks import changing

_VERSION = 2
_TOGETHER = 2**20
"""Characters of the documents that are tokenized together, which is faster than one by one."""
_FOOT = 40
"""Bytes at the end of a file: a digest of the tokens, and the number of documents."""


class TokenFile:
    """Tokens of all documents of some files; each document begins with the tokenizer's end token.

    The tokens are written once and then mapped into memory, so that texts may be larger than it. The file's name
    depends on the texts' paths, sizes and times, on the tokenizer, and on the field, so other texts have another file.

    Args:
        files: Files with texts, in order.
        field: See :func:`~data_modules.text.documents.documents`.
        tokenizer: The tokenizer.
        name: The task, for messages.

    Attributes:
        offsets: Position of each document's first token, and the end of the last document, (D + 1,).
        sizes: UTF-8 bytes of each document, (D,).
        digest: Digest of the tokens.
    """

    def __init__(self, files: Sequence[Path], field: str, tokenizer: Any, name: str) -> None:
        import tokenizers  # of an extra

        self.end, self.dtype = end_of(tokenizer), np.min_scalar_type(size_of(tokenizer) - 1)
        own = f"{_VERSION} {tokenizers.__version__} {self.end} {field}\n{tokenizer.backend_tokenizer.to_str()}"
        state = [stamp(file) for file in files]
        self.path = cached_file("tokens", "tokens", [own.encode(), *state])
        with changing(self.path.parent):  # the first of several processes makes the file
            if not self.path.exists():
                size = sum(file.stat().st_size for file in files)
                rank_zero_info(f"{name}: tokenizing {len(files):,} files of {size:,} bytes once, to {self.path}")
                self._write(files, field, tokenizer, size)
                if [stamp(file) for file in files] != state:
                    self.path.unlink()
                    raise UserError(f"data.root: a file of {name} changed while it was read; start again")
        with suppress(OSError):
            os.utime(self.path)  # says that it was used
        guarded(self._read_table, str(self.path), "remove it, then it is made again")

    def _read_table(self) -> None:
        with self.path.open("rb") as file:
            file.seek(-_FOOT, os.SEEK_END)
            self.digest, (count,) = file.read(32), np.fromfile(file, np.int64, 1).tolist()
            table = file.seek(-_FOOT - 16 * count, os.SEEK_END)
            lengths, self.sizes = np.fromfile(file, np.int64, 2 * count).reshape(2, count)
        self.offsets: Indices = np.cumsum([0, *lengths], dtype=np.int64)
        if table != self.offsets[-1] * self.dtype.itemsize:
            raise ValueError("its size is wrong")

    @cached_property
    def tokens(self) -> NDArray[Any]:
        """All tokens, mapped into memory."""
        return np.memmap(self.path, self.dtype, "r", shape=(int(self.offsets[-1]),))

    def __len__(self) -> int:
        return len(self.sizes)

    def __getstate__(self) -> dict[str, Any]:
        """Without the mapped file, which each process opens itself."""
        return {key: value for key, value in vars(self).items() if key != "tokens"}

    def _write(self, files: Sequence[Path], field: str, tokenizer: Any, size: int) -> None:
        try:
            make_room(self.path, size)  # most tokens stand for four bytes or more
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"cannot write {self.path}: {reason}; set LGX_CACHE to a folder with more space") from error
        digest, lengths, sizes = hashlib.sha256(), list[int](), list[int]()
        with atomic_path(self.path) as temporary, temporary.open("wb") as out:
            for path in files:
                before = len(lengths)
                for texts in _together(documents(path, field)):
                    ids = [np.array([self.end, *own], self.dtype) for own in encode(tokenizer, texts)]
                    digest.update(part := np.concatenate(ids).tobytes())
                    out.write(part)
                    lengths += map(len, ids)
                    sizes += (len(text.encode()) for text in texts)
                if len(lengths) == before:
                    raise UserError(f"{path}: holds no text; add some or remove the file")
            out.write(np.array([lengths, sizes], np.int64).tobytes() + digest.digest())
            out.write(np.int64(len(lengths)).tobytes())


def _together(texts: Iterator[str]) -> Iterator[list[str]]:
    group, size = list[str](), 0
    for text in texts:
        group.append(text)
        size += len(text)
        if size >= _TOGETHER:
            yield group
            group, size = [], 0
    if group:
        yield group


class Sequences:
    """Sequences of tokens, each with the next token of every position.

    The tokens of the documents follow one another. Sequence i begins at token i N, and its last target is the first
    token of sequence i + 1, so that every token but the very first one is a target once.

    Args:
        file: The tokens.
        chosen: The documents, in order, (D,).
        length: Tokens of a sequence, N.
        keeps_rest: Whether the last sequence may be shorter.

    Attributes:
        bytes_per_token: UTF-8 bytes of the documents for each target.
    """

    def __init__(self, file: TokenFile, chosen: Indices, length: int, keeps_rest: bool) -> None:
        self.file, self.length = file, length
        first = np.flatnonzero(np.diff(chosen, prepend=-2) != 1)  # documents that follow one another are one part
        last = np.flatnonzero(np.diff(chosen, append=-2) != 1)
        stops = file.offsets[chosen[last] + 1]
        self.ends = np.cumsum(stops - file.offsets[chosen[first]])
        self.shifts = stops - self.ends  # from places in the sequences to places in the file
        targets = int(self.ends[-1]) - 1 if len(chosen) else 0
        self.bytes_per_token = float(file.sizes[chosen].sum() / max(1, targets))
        self.order = np.arange(-(-targets // length) if keeps_rest else targets // length)

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        begin = int(self.order[index]) * self.length
        end, parts = min(begin + self.length + 1, int(self.ends[-1])), list[NDArray[Any]]()
        number = int(np.searchsorted(self.ends, begin, side="right"))
        while begin < end:
            stop, shift = min(end, int(self.ends[number])), int(self.shifts[number])
            parts.append(self.file.tokens[begin + shift : stop + shift])
            begin, number = stop, number + 1
        ids = torch.from_numpy(np.concatenate(parts).astype(np.int64))
        return ids[:-1], ids[1:]

    def take(self, indices: Indices) -> "Sequences":
        """The sequences at ``indices``."""
        part = copy(self)
        part.order = self.order[indices]
        return part
