"""Architecture sets: random ViTs that hypernetworks are trained on.

The distributions are those of the generators behind LoGAH (Zhou et al., 2024) and TAL (2025). Their width steps
and ranges are facts read from those generators; the papers give only the limits.
"""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from lgx.architectures.vit import ViTArchitecture
from lgx.errors import UserError


def _heads(rng: random.Random, embed_dim: int) -> int:
    return rng.choice((3, 6, 12) if embed_dim % 12 == 0 else (4, 8))


def _vits_1k(rng: random.Random) -> tuple[int, int]:
    depth = rng.randint(3, 9)
    low, high = (384, 512) if depth == 3 else (256, 384) if depth <= 5 else (128, 256)
    return depth, rng.randrange(low, high + 1, 32)


def _vits_plus_1k(rng: random.Random) -> tuple[int, int]:
    return rng.randint(3, 12), rng.randrange(192, 768 + 1, 64)


SETS: dict[str, Callable[[random.Random], tuple[int, int]]] = {"ViTs-1K": _vits_1k, "ViTs+-1K": _vits_plus_1k}
"""ViTs-1K: 3-9 layers, about 10 M parameters at most. ViTs+-1K: 3-12 layers, width 192-768 in steps of 64 (the
released generator; a rebuttal says 32), more large ones."""


def sample_architectures(
    name: str, count: int = 1000, seed: int = 1, base: ViTArchitecture | None = None
) -> Iterator[ViTArchitecture]:
    """Sample an architecture set; the first n of a longer draw are those of a shorter one.

    Args:
        name: ``ViTs-1K`` or ``ViTs+-1K``.
        count: How many.
        seed: Seed; 1 in the released generators.
        base: Image size, patch size, channels and classes of all of them; default 224 px, patch 16, 1000 classes.

    Raises:
        UserError: If the set is unknown or ``count`` is not positive.
    """
    if name not in SETS:
        raise UserError(f"architecture set {name!r} is unknown; known are {', '.join(SETS)}")
    if count < 1:
        raise UserError(f"count must be at least 1, got {count}")
    rng, base = random.Random(seed), (base or ViTArchitecture()).replace(stages=None)
    for _ in range(count):
        depth, embed_dim = SETS[name](rng)
        yield base.replace(depth=depth, embed_dim=embed_dim, num_heads=_heads(rng, embed_dim))


def read_architectures(path: str, base: ViTArchitecture | None = None) -> list[ViTArchitecture]:
    """Read an architecture set from JSON lines, as ``lgx sample`` writes it.

    A line is an object with the keys of :class:`ViTArchitecture`; a ``name`` is ignored, ``num_classes`` is that of
    ``base`` (it belongs to the task), and keys that a line lacks are those of ``base``. Empty lines are skipped.

    Args:
        path: The file, one object per line.
        base: Image size and channels that all of them must have; None takes them as they are.

    Raises:
        UserError: If the file cannot be read or holds no architecture, or, with the line's number, if a line is no
            valid JSON object, describes no valid architecture, or takes other images than ``base``.
    """
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UserError(f"{path}: {reason}; give a file that `lgx sample --out FILE.jsonl` wrote") from error
    read = [_read_line(f"{path}, line {n}", line, base) for n, line in enumerate(lines, 1) if line.strip()]
    if not read:
        raise UserError(f"{path}: holds no architecture; write one with `lgx sample ViTs-1K --out {path}`")
    return read


def _read_line(place: str, line: str, base: ViTArchitecture | None) -> ViTArchitecture:
    try:
        values: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise UserError(f"{place}: not valid JSON ({error.msg}, column {error.colno})") from error
    default = base or ViTArchitecture()
    if not isinstance(values, dict):
        raise UserError(f"{place}: holds a {type(values).__name__}, expected an object such as {default.to_dict()}")
    values.pop("name", None)
    for key in ("img_size", "in_chans") if base else ():
        have, want = values.get(key, getattr(default, key)), getattr(default, key)
        if have != want:
            raise UserError(
                f"{place}: {key} is {have}, but the data's is {want}; leave {key} out, or use `lgx sample --arch`"
            )
    try:
        return ViTArchitecture.from_dict({**default.to_dict(), **values, "num_classes": default.num_classes})
    except (UserError, TypeError) as error:
        raise UserError(f"{place}: {error}") from error


def architecture_set(source: str, count: int | None, base: ViTArchitecture) -> list[ViTArchitecture]:
    """The first architectures of a named set, by default 1000, or of a ``.jsonl`` file, by default all.

    Raises:
        UserError: If ``count`` is not positive, or as the sources say.
    """
    if count is not None and count < 1:
        raise UserError(f"count must be at least 1, got {count}")
    if source.endswith(".jsonl"):
        return read_architectures(source, base)[:count]
    return list(sample_architectures(source, count or 1000, base=base))
