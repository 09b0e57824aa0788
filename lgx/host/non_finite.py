"""Numbers that are not finite in files of weights: refused unless the user has allowed them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

from torch import Tensor

from lgx.errors import UserError

_allowed: ContextVar[bool] = ContextVar("non_finite_allowed", default=False)


@contextmanager
def non_finite_allowed(allowed: bool) -> Iterator[None]:
    """Allow weights that are not finite in the block, or not: the option ``--allow_non_finite`` of a command."""
    token = _allowed.set(allowed)
    try:
        yield
    finally:
        _allowed.reset(token)


def refuse_non_finite(tensors: Mapping[str, Tensor], place: str) -> None:
    """Refuse tensors that hold NaN or infinity.

    Args:
        tensors: Parameters by name.
        place: The file, for the message.

    Raises:
        UserError: If one does, and the command was not given ``--allow_non_finite``.
    """
    if _allowed.get():
        return
    wrong = [name for name, tensor in tensors.items() if tensor.is_floating_point() and not tensor.isfinite().all()]
    if wrong:
        others = len(wrong) - 1
        holders = f"{wrong[0]} and {others} more tensor{'s' * (others > 1)} hold" if others else f"{wrong[0]} holds"
        raise UserError(
            f"{place}: {holders} numbers that are not finite, because training diverged; train again with a lower "
            f"learning rate, or give --allow_non_finite"
        )
