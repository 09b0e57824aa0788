"""Architecture sets: random ViTs, GPT-2s and Llamas that hypernetworks are trained on.

The distributions are those of the generators that LoGAH (Zhou et al., 2024) and TAL (2025) released. Width steps and
ranges are read from these generators, because the papers give only the limits. LLAMAs-1K is ours.
"""

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar, cast

from lgx.architectures.base import Architecture
from lgx.architectures.hf import HFArchitecture
from lgx.architectures.names import name_of
from lgx.architectures.parsing import architecture_from_dict
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


_DEFAULTS: dict[str, Callable[[], Architecture]] = {
    "ViT": ViTArchitecture,
    "GPT-2": HFArchitecture,
    "Llama": lambda: HFArchitecture(config='{"model_type":"llama"}'),
}
"""What a set holds -> the architecture that gives all other values by default."""
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


def sample_architectures(
    name: str, count: int = 1000, seed: int = 1, base: Architecture | None = None
) -> Iterator[Architecture]:
    """Sample an architecture set. The first n architectures of a longer draw equal a draw of n.

    Args:
        name: ``ViTs-1K``, ``ViTs+-1K``, ``GPTs-1K`` or ``LLAMAs-1K``.
        count: Number of architectures.
        seed: Seed; 1 in the released generators.
        base: Gives the values that all architectures share: image size, patch size, channels and classes (default 224
            px, patch 16, 3 channels, 1000 classes), or vocabulary, longest text and classes (default 50257, 1024, 2).
    """
    if name not in SETS:
        raise UserError(f"architecture set {name!r} is unknown; known are {', '.join(SETS)}")
    rng = random.Random(seed)
    held, draw = SETS[name]
    base = base or _DEFAULTS[held]()
    kind = "ViT" if isinstance(base, ViTArchitecture) else "GPT-2" if getattr(base, "is_gpt2", False) else "Llama"
    if kind != held:
        fitting = [other for other, (its_kind, _) in SETS.items() if its_kind == kind]
        raise UserError(
            f"architecture set {name} holds {held}s, but {name_of(base)} is a {base.label}; use {' or '.join(fitting)}"
        )
    for _ in range(count):
        depth, embed_dim, num_heads = draw(rng)
        yield base.unshared().replace(depth=depth, embed_dim=embed_dim, num_heads=num_heads)


def read_architectures(path: str, base: Architecture | None = None) -> list[Architecture]:
    """Read an architecture set from JSON lines.

    A line is an object with an architecture's keys. The key ``name`` is ignored. ``num_classes`` is that of ``base``,
    because it belongs to the task, and missing keys are those of ``base``. Empty lines are skipped.

    Args:
        path: The file, one object per line.
        base: Every line must have its image size and channels, or its vocabulary and longest text; None accepts any.
    """
    remedy = 'give a file with an architecture in each line, such as {"depth": 4, "embed_dim": 64, "num_heads": 4}'
    lines = enumerate(read_bytes(Path(path), remedy).splitlines(), 1)
    read = [_read_line(f"{path}, line {n}", line, base) for n, line in lines if line.strip()]
    if not read:
        raise UserError(f"{path}: holds no architecture; {remedy}")
    return read


def _read_line(location: str, line: bytes, base: Architecture | None) -> Architecture:
    values = check_fields(parse_json(line, location, "expected one architecture per line"), {}, location)
    values.pop("name", None)
    try:
        default = base or type(architecture_from_dict({k: v for k, v in values.items() if k == "family"}))()
        inputs = {"family": default.to_dict().get("family", "vit")}
        inputs |= {key: getattr(default, key) for key in default.input_keys} if base else {}
        for key, want in inputs.items():
            have = values.get(key, want)
            if have != want:
                raise UserError(f"{key} is {shortened(have)}, but the data's is {want}; leave {key} out")
        return architecture_from_dict({**default.to_dict(), **values, "num_classes": default.num_classes})
    except (UserError, TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{location}: {error}") from error


def architecture_set(source: str, count: int | None, base: A) -> list[A]:
    """Read the first architectures of a set.

    Args:
        source: Name of a set, or a ``.jsonl`` file.
        count: Number of architectures; None takes 1000 of a named set, and all of a file.
        base: As for :func:`sample_architectures` and :func:`read_architectures`.
    """
    if count is not None and count < 1:
        raise UserError(f"count must be at least 1, got {count}")
    if source.endswith(".jsonl"):
        return cast(list[A], read_architectures(source, base)[:count])
    return cast(list[A], list(sample_architectures(source, count or 1000, base=base)))
