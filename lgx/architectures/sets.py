"""Architecture sets: random ViTs, GPT-2s and Llamas that hypernetworks are trained on.

The distributions are those of the generators that LoGAH (Zhou et al., 2024) and TAL (2025) released. Width steps and
ranges are read from these generators, because the papers give only the limits. LLAMAs-1K is ours.
"""

import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lgx.architectures.base import Architecture
from lgx.architectures.names import name_of
from lgx.architectures.vit import ViTArchitecture
from lgx.core.schema import check_fields, shortened
from lgx.errors import UserError
from lgx.host.safety import parse_json, read_bytes

A = TypeVar("A", bound=Architecture)


def _random_heads(rng: random.Random, embed_dim: int) -> int:
    return rng.choice((3, 6, 12) if embed_dim % 12 == 0 else (4, 8))


def _vits_1k(rng: random.Random) -> tuple[int, int, int]:
    depth = rng.randint(3, 9)
    low, high = (384, 512) if depth == 3 else (256, 384) if depth <= 5 else (128, 256)
    embed_dim = rng.randrange(low, high + 1, 32)
    return depth, embed_dim, _random_heads(rng, embed_dim)


def _vits_plus_1k(rng: random.Random) -> tuple[int, int, int]:
    depth = rng.randint(3, 12)
    embed_dim = rng.randrange(192, 768 + 1, 64)
    return depth, embed_dim, _random_heads(rng, embed_dim)


def _gpts_1k(rng: random.Random) -> tuple[int, int, int]:
    depth = rng.randint(3, 9)
    low, high = (176, 256) if depth == 3 else (128, 176) if depth <= 5 else (72, 176)
    return depth, rng.randrange(low, high + 1, 8), 8


def _llamas_1k(rng: random.Random) -> tuple[int, int, int]:
    depth = rng.randint(3, 9)
    low, high = (176, 256) if depth == 3 else (128, 176) if depth <= 5 else (80, 176)
    return depth, rng.randrange(low, high + 1, 16), 8


SETS: dict[str, tuple[str, Callable[[random.Random], tuple[int, int, int]]]] = {
    "ViTs-1K": ("ViT", _vits_1k),
    "ViTs+-1K": ("ViT", _vits_plus_1k),
    "GPTs-1K": ("GPT-2", _gpts_1k),
    "LLAMAs-1K": ("Llama", _llamas_1k),
}
"""Sets by name: what they hold, and what draws depth, embed_dim and num_heads.

- ViTs-1K: 3-9 layers, at most about 10 M parameters.
- ViTs+-1K: 3-12 layers, width 192-768 in steps of 64, so it has more large networks. The steps are those of the
  released generator; a rebuttal says 32.
- GPTs-1K: 3-9 layers, width 72-256 in steps of 8, always 8 heads, at most 16 M parameters with GPT-2's vocabulary and
  1024 positions. TAL's paper only names the set. The 768-wide GPT-2s of its Table 6 are far outside the set.
- LLAMAs-1K: ours; GPTs-1K for Llama and other networks of transformers with rotary positions, which need heads of an
  even width. So widths are 80-256 in steps of 16. Type, groups of heads and ``mlp_ratio`` are those of the base.
"""


def architecture_set(source: str, count: int | None, base: A) -> list[A]:
    """Draw or read the first architectures of a set. The first n architectures of a longer draw equal a draw of n.

    A line of a file is an object with an architecture's keys. The key ``name`` is ignored. ``num_classes`` is that of
    ``base``, because it belongs to the task, and missing keys are those of ``base``. Empty lines are skipped.

    Args:
        source: ``ViTs-1K``, ``ViTs+-1K``, ``GPTs-1K`` or ``LLAMAs-1K``, or a ``.jsonl`` file.
        count: Number of architectures; None takes 1000 of a named set, and all of a file.
        base: Gives the values that all architectures share: image size, patch size, channels and classes, or
            vocabulary, longest text and classes. Every line of a file must have its inputs.
    """
    if count is not None and count < 1:
        raise UserError(f"count must be at least 1, got {count}")
    if source.endswith(".jsonl"):
        return _read_architectures(source, base)[:count]
    if source not in SETS:
        raise UserError(f"architecture set {source!r} is unknown; known are {', '.join(SETS)}")
    held, draw = SETS[source]
    kind = "ViT" if isinstance(base, ViTArchitecture) else "GPT-2" if getattr(base, "is_gpt2", False) else "Llama"
    if kind != held:
        fitting = [other for other, (its_kind, _) in SETS.items() if its_kind == kind]
        raise UserError(
            f"architecture set {source} holds {held}s, but {name_of(base)} is a {base.label}; use "
            f"{' or '.join(fitting)}"
        )
    rng = random.Random(1)  # the seed of the released generators
    sizes = [draw(rng) for _ in range(count or 1000)]
    return [base.unshared().replace(depth=depth, embed_dim=dim, num_heads=heads) for depth, dim, heads in sizes]


def _read_architectures(path: str, base: A) -> list[A]:
    remedy = 'give a file with an architecture in each line, such as {"depth": 4, "embed_dim": 64, "num_heads": 4}'
    lines = enumerate(read_bytes(Path(path), remedy).splitlines(), 1)
    read = [_read_line(f"{path}, line {n}", line, base) for n, line in lines if line.strip()]
    if not read:
        raise UserError(f"{path}: holds no architecture; {remedy}")
    return read


def _read_line(location: str, line: bytes, base: A) -> A:
    values = check_fields(parse_json(line, location, "expected one architecture per line"), {}, location)
    values.pop("name", None)
    try:
        for key in ("family", *base.input_keys):
            want = getattr(base, key)
            have = values.get(key, want)
            if have != want:
                raise UserError(f"{key} is {shortened(have)}, but the data's is {want}; leave {key} out")
        return base.from_dict({**base.to_dict(), **values, "num_classes": base.num_classes})
    except (UserError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{location}: {error}") from error
