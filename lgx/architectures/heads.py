"""Where the classes of a task stand among those of a trained network, by their names, and heads in that order."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from lgx.architectures.base import Architecture
from lgx.errors import UserError


def class_order(known: Sequence[str], wanted: Sequence[str], place: str) -> list[int] | None:
    """Where the classes of a task stand among those of a trained network.

    Args:
        known: Names of the network's classes, in index order; empty where unknown.
        wanted: Names of the task's classes, likewise.
        place: What the network comes from, for the message.

    Returns:
        The index of each wanted class among the known ones; None where both orders are the same or one is unknown.
    """
    if not known or not wanted or tuple(known) == tuple(wanted):
        return None
    if set(known) != set(wanted) or len(known) != len(wanted):
        gone, new = (", ".join(map(ascii, sorted(names)[:5])) for names in ({*known} - {*wanted}, {*wanted} - {*known}))
        raise UserError(
            f"{place}: its classes are not those of the data, which lacks {gone or 'none'} and has {new or 'none'} "
            f"instead; give the classes the names of the training again, or train a new head"
        )
    places = {name: index for index, name in enumerate(known)}
    return [places[name] for name in wanted]


def with_class_order(
    tensors: Mapping[str, Tensor], architecture: Architecture, order: Sequence[int] | None, prefix: str = ""
) -> dict[str, Tensor]:
    """Parameters whose head has its K classes in another order; without an order as they are.

    Args:
        tensors: Parameters of a network, which may have a head: weight (K, D) and bias (K,).
        architecture: Its architecture.
        order: The present index of each class, see :func:`class_order`.
        prefix: What stands before the names of the parameters.
    """
    heads = tuple(f"{prefix}{head}" for head in architecture.head_prefixes)
    return {
        name: tensor[list(order)] if order and name.startswith(heads) and len(tensor) == len(order) else tensor
        for name, tensor in tensors.items()
    }
