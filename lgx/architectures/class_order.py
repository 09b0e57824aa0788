"""The order of a head's classes, which may differ between a trained network and the data."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from lgx.architectures.base import Architecture
from lgx.errors import UserError


def class_order(names: Sequence[str], wanted: Sequence[str], source: str) -> list[int] | None:
    """Find the index of each class of a task among a trained network's classes.

    Args:
        names: Names of the network's classes, in index order; empty if unknown.
        wanted: Names of the task's classes, in index order; empty if unknown.
        source: Source of the network, for the message.

    Returns:
        The index of each wanted class among the network's; None if both orders are equal or one is unknown.
    """
    if not names or not wanted or tuple(names) == tuple(wanted):
        return None
    if set(names) != set(wanted) or len(names) != len(wanted):
        raise UserError(
            f"{source}: its classes differ from the classes of the data, which lacks "
            f"{_first_names({*names} - {*wanted})} and has {_first_names({*wanted} - {*names})} instead; rename the "
            f"classes of the data as in training, or train a new head"
        )
    positions = {name: index for index, name in enumerate(names)}
    return [positions[name] for name in wanted]


def _first_names(names: set[str]) -> str:
    return ", ".join(map(ascii, sorted(names)[:5])) or "none"


def with_class_order(
    tensors: Mapping[str, Tensor], architecture: Architecture, order: Sequence[int] | None, prefix: str = ""
) -> dict[str, Tensor]:
    """Parameters with the head's K classes in another order; unchanged without an order.

    Args:
        tensors: Parameters of a network, which may have a head: weight (K, D) and bias (K,).
        architecture: Its architecture.
        order: The present index of each class, see :func:`class_order`.
        prefix: Prefix of the parameters' names.
    """
    heads = tuple(f"{prefix}{head}" for head in architecture.head_prefixes)
    return {
        name: tensor[list(order)] if order and name.startswith(heads) and len(tensor) == len(order) else tensor
        for name, tensor in tensors.items()
    }
