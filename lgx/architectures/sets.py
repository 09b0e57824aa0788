"""Architecture sets: random ViTs that hypernetworks are trained on.

The distributions are those of the generators behind LoGAH (Zhou et al., 2024) and TAL (2025). Their width steps
and ranges are facts read from those generators; the papers give only the limits.
"""

import random
from collections.abc import Callable, Iterator

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
    rng, base = random.Random(seed), base or ViTArchitecture()
    for _ in range(count):
        depth, embed_dim = SETS[name](rng)
        yield base.replace(depth=depth, embed_dim=embed_dim, num_heads=_heads(rng, embed_dim))
