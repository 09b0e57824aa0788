"""Index arithmetic of expansion: the learngene layer of each layer of a descendant.

All functions are pure. Those that return indices give, for each of the descendant's layers front to back, the index of
its source layer; :func:`take_layers` applies them to tensors.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Literal

from torch import Tensor

from lgx.errors import UserError

Order = Literal["front_mid_last", "front_last_mid"]


def cyclic(num_stages: int, depth: int, order: Order = "front_mid_last") -> list[int]:
    """Cyclic initialization (SWS, Sec. 3.3): distribute the layers to the stages in turn, and keep the stage order.

    Every stage gets one layer. The other ``depth - num_stages`` layers go to the stages one by one in a cyclic order.
    ``front_mid_last`` (the paper's order1) goes from the first stage to the last one. ``front_last_mid`` (order2) takes
    the first, the last, the second, the last but one, and so on inwards. The paper shows both for three stages only
    (Fig. 3c); the inward order for more stages is our reading.

    Args:
        num_stages: Number of learngene layers, M.
        depth: Layers of the descendant, at least M.
        order: Which stage grows first.

    Returns:
        Source index of each layer, non-decreasing, length ``depth``.
    """
    check_depth(num_stages, depth)
    if order == "front_mid_last":
        turn = list(range(num_stages))
    else:
        turn = [i // 2 if i % 2 == 0 else num_stages - 1 - i // 2 for i in range(num_stages)]
    return sorted(turn[index % num_stages] for index in range(depth))


def random_assigned(num_stages: int, depth: int, seed: int = 0, keeps_order: bool = False) -> list[int]:
    """Random-assigned initialization (SWS, Sec. 3.3): a random learngene layer for each layer.

    The paper does not say whether the order of the stages is kept.

    Args:
        num_stages: Number of learngene layers, M.
        depth: Layers of the descendant.
        seed: Seed of the draw.
        keeps_order: Whether the drawn layers are put into the order of the stages.

    Returns:
        Source index of each layer, uniform and independent but for the order, length ``depth``.
    """
    check_depth(num_stages, depth)
    rng = random.Random(seed)
    drawn = [rng.randrange(num_stages) for _ in range(depth)]
    return sorted(drawn) if keeps_order else drawn


def first_of_stages(stages: tuple[int, ...]) -> list[int]:
    """Index of the first layer of each stage in a network with shared stages, e.g. (3, 3, 4) -> [0, 3, 6]."""
    return [sum(stages[:i]) for i in range(len(stages))]


def take_layers(state: Mapping[str, Tensor], layers: Sequence[int], prefix: str = "blocks.") -> dict[str, Tensor]:
    """Make a state dict whose layer i is layer ``layers[i]`` of ``state``, with all other parameters unchanged.

    It extracts one layer per stage from a network, and expands a learngene to a descendant.

    Args:
        state: Parameters, in layers ``<prefix><i>.…``.
        layers: For each target layer the index of its source layer.
        prefix: Prefix of the names of a layer's parameters, before its number.

    Returns:
        Copies, so layers with the same source do not share memory.
    """
    taken = {k: v.clone() for k, v in state.items() if not k.startswith(prefix)}
    for target, source in enumerate(layers):
        source_prefix = f"{prefix}{source}."
        for key, value in state.items():
            if key.startswith(source_prefix):
                taken[f"{prefix}{target}.{key.removeprefix(source_prefix)}"] = value.clone()
    return taken


def check_depth(num_stages: int, depth: int) -> None:
    """Refuse a descendant with fewer layers than the learngene."""
    if depth < num_stages:
        raise UserError(
            f"depth {depth} is below the learngene's {num_stages} layers; choose a depth of at least {num_stages}, "
            "one layer per stage"
        )
