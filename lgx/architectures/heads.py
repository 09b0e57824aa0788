"""Heads whose classes have another order."""

from collections.abc import Mapping, Sequence

from torch import Tensor

from lgx.architectures.base import Architecture


def with_class_order(
    tensors: Mapping[str, Tensor], architecture: Architecture, order: Sequence[int] | None, prefix: str = ""
) -> dict[str, Tensor]:
    """Parameters whose head has its K classes in another order; without an order as they are.

    Args:
        tensors: Parameters of a network, which may have a head: weight (K, D) and bias (K,).
        architecture: Its architecture.
        order: The present index of each class, see :func:`~lgx.core.class_order.class_order`.
        prefix: What stands before the names of the parameters.
    """
    heads = tuple(f"{prefix}{head}" for head in architecture.head_prefixes)
    return {
        name: tensor[list(order)] if order and name.startswith(heads) and len(tensor) == len(order) else tensor
        for name, tensor in tensors.items()
    }
