"""Index arithmetic of expansion: which learngene layer feeds which layer of a descendant.

Pure functions; every one returns, for each of the descendant's layers front to back, the index of its source layer.
"""

import random
from typing import Literal

from lgx.errors import UserError

Order = Literal["front_mid_last", "front_last_mid"]


def cyclic(num_stages: int, depth: int, order: Order = "front_mid_last") -> list[int]:
    """Cyclic initialisation (SWS, Sec. 3.3): hand out layers one stage at a time, keep the stage order.

    Every stage gets one layer; the ``depth - num_stages`` layers beyond go to the stages one by one in a cyclic
    order. ``front_mid_last`` (the paper's order1) goes through the stages front to back; ``front_last_mid`` (order2)
    takes the first, the last, the second, the last but one, and so on inwards. The paper draws both for three
    stages only (Fig. 3c); the inward order is our reading for more.

    Args:
        num_stages: Number of learngene layers, M.
        depth: Layers of the descendant, at least M.
        order: Which stage grows first.

    Returns:
        Source index of each layer, non-decreasing, length ``depth``.

    Raises:
        UserError: If ``depth`` is below ``num_stages``.
    """
    _check_depth(num_stages, depth)
    if order == "front_mid_last":
        turn = list(range(num_stages))
    else:
        turn = [i // 2 if i % 2 == 0 else num_stages - 1 - i // 2 for i in range(num_stages)]
    counts = [1] * num_stages
    for extra in range(depth - num_stages):
        counts[turn[extra % num_stages]] += 1
    return [stage for stage, count in enumerate(counts) for _ in range(count)]


def random_assigned(num_stages: int, depth: int, seed: int = 0) -> list[int]:
    """Random-assigned initialisation (SWS, Sec. 3.3): any learngene layer for any layer.

    Args:
        num_stages: Number of learngene layers, M.
        depth: Layers of the descendant.
        seed: Seed of the draw.

    Returns:
        Source index of each layer, uniform and independent, length ``depth``.

    Raises:
        UserError: If ``depth`` is below ``num_stages``.
    """
    _check_depth(num_stages, depth)
    rng = random.Random(seed)
    return [rng.randrange(num_stages) for _ in range(depth)]


def first_of_stages(stages: tuple[int, ...]) -> list[int]:
    """Index of the first layer of each stage in a network with shared stages, e.g. (3, 3, 4) -> [0, 3, 6]."""
    return [sum(stages[:i]) for i in range(len(stages))]


def evenly_spaced(source: int, target: int) -> list[int]:
    """``target`` indices spread evenly over ``range(source)``, strictly increasing (weight selection).

    Xu et al., "Initializing Models with Larger Ones", 2024, Sec. 3 (uniform element selection). Integer arithmetic,
    so that no rounding leads out of range.

    Raises:
        UserError: If ``target`` exceeds ``source``.
    """
    if target > source:
        raise UserError(f"weight selection takes {target} of {source} elements: the descendant must not be wider")
    return [(i * source) // target for i in range(target)]


def _check_depth(num_stages: int, depth: int) -> None:
    if depth < num_stages:
        raise UserError(
            f"depth {depth} is below the learngene's {num_stages} layers: every stage needs one; "
            f"choose a depth of at least {num_stages}"
        )
