"""Store a frozen network's outputs on disk, for images that are read again."""

import errno
import hashlib
import shutil
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from operator import itemgetter
from typing import Any

import timm
import torch
from safetensors.torch import load, save
from torch import Tensor, nn

from lgx.host.cache import cached_file, make_room

_VERSION = 2
_CHECKSUM = 16
"""Bytes of the checksum before an output."""
_TABLE = "CREATE TABLE IF NOT EXISTS answers (key BLOB PRIMARY KEY, value BLOB)"
_PATIENCE = 30.0
"""Seconds that a process waits for other processes that write the file."""
_PLAIN = (bool, int, float, str, tuple, type(None))
"""Types of a module's attributes that determine its computation."""

Answer = tuple[Tensor, ...]
"""Tensors whose first dimension is the batch, (B, …)."""


class TeacherCache:
    """Stores a network's output for each input, by the input's content.

    The output comes from the first batch with the input; in a batch of another size, the last bits may differ.
    Processes and runs share the file, an SQLite database, which is intact after a crash. Each output has a checksum; a
    damaged output is computed again. Without permission or space, nothing is stored.

    Args:
        model: The network.
    """

    def __init__(self, model: nn.Module) -> None:
        self.path = cached_file("teachers", "sqlite", _identity(model))
        self.failure = ""
        try:
            make_room(self.path)
            self.path.touch()  # says that it was used
        except OSError as error:
            self.failure = str(error)
        else:
            self._use(lambda file: file.execute(_TABLE))

    def describe(self) -> str:
        """One line for the terminal."""
        return f"ancestor   is asked in each epoch; {self.failure}" if self.failure else f"answers    in {self.path}"

    def answer(self, part: str, inputs: Tensor, compute: Callable[[Tensor], Answer]) -> Answer:
        """Return the outputs of a batch; only new inputs are computed.

        Args:
            part: Name of the output, e.g. ``logits``.
            inputs: The batch, (B, …).
            compute: Computes the outputs of a part of the batch.
        """
        if self.failure:
            return compute(inputs)
        keys = _keys(part, inputs)
        known = self._read(keys)
        missing = [row for row, key in enumerate(keys) if key not in known]
        if missing:
            # Contiguous like stored outputs, because sums over another memory layout round differently.
            computed = tuple(t.contiguous() for t in compute(inputs if len(missing) == len(keys) else inputs[missing]))
            rows = zip(*(tensor.unbind() for tensor in computed), strict=True)
            new = dict(zip((keys[row] for row in missing), rows, strict=True))
            self._write(new)
            if len(missing) == len(keys):
                return computed
            known |= new
        answers = [known[key] for key in keys]
        return tuple(torch.stack([part.to(inputs.device) for part in parts]) for parts in zip(*answers, strict=True))

    def _read(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        def select(file: sqlite3.Connection) -> dict[bytes, Answer]:
            found: dict[bytes, Answer] = {}
            for key in keys:
                (value,) = file.execute("SELECT value FROM answers WHERE key = ?", (key,)).fetchone() or (b"",)
                if value[:_CHECKSUM] == _checksum(value[_CHECKSUM:]):
                    tensors = load(value[_CHECKSUM:])
                    found[key] = tuple(tensors[name] for name in sorted(tensors))
            return found

        return self._use(select) or {}

    def _write(self, answers: Mapping[bytes, Answer]) -> None:
        saved = ((key, save({str(i): t.cpu() for i, t in enumerate(parts)})) for key, parts in answers.items())
        records = [(key, _checksum(content) + content) for key, content in saved]

        def insert(file: sqlite3.Connection) -> None:
            if self.path.stat().st_size > shutil.disk_usage(self.path).free:
                raise OSError(errno.ENOSPC, "the outputs would take more than half of the free space")
            file.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", records)

        self._use(insert)

    def _use(self, action: Callable[[sqlite3.Connection], Any]) -> Any:
        """Use the file; None after a failure, which ends the storage."""
        try:
            with closing(sqlite3.connect(self.path, timeout=_PATIENCE)) as file, file:
                return action(file)
        except (OSError, sqlite3.Error) as error:
            self.failure = str(error)
            return None


def _checksum(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:_CHECKSUM]


def _identity(model: nn.Module) -> Iterator[bytes | memoryview]:
    """The identity of a network: its modules with plain attributes, such as the number of heads, and tensors."""
    yield f"{_VERSION} {torch.__version__} {timm.__version__} {model}".encode()
    for name, module in model.named_modules():
        plain = sorted((key, value) for key, value in vars(module).items() if isinstance(value, _PLAIN))
        yield f"{name} {type(module).__module__}.{type(module).__qualname__} {plain}".encode()
    tensors: list[tuple[str, Tensor]] = [*model.named_parameters(), *model.named_buffers()]
    for name, tensor in sorted(tensors, key=itemgetter(0)):
        yield f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode()
        yield tensor.detach().contiguous().cpu().view(-1).view(torch.uint8).numpy().data


def _keys(part: str, inputs: Tensor) -> list[bytes]:
    """The identity of each of B outputs: the input (B, ...), and the precision of the computation."""
    kind = inputs.device.type
    precision = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else inputs.dtype
    start = hashlib.sha256(f"{part} {kind} {precision} {inputs.dtype} {tuple(inputs.shape[1:])}".encode())
    rows = inputs.detach().contiguous().cpu().flatten(1).view(torch.uint8).numpy()
    keys = []
    for row in rows:
        digest = start.copy()
        digest.update(row.data)
        keys.append(digest.digest()[:20])
    return keys
