"""The seed of the run, and which seeds there are."""

import os

from lgx.errors import UserError

LARGEST_SEED = 2**32 - 1


def run_seed() -> int:
    """The run's seed, which Lightning's ``seed_everything`` stores in the environment; 0 without one."""
    return int(os.environ.get("PL_GLOBAL_SEED", 0))


def check_seed(seed: int, place: str) -> None:
    """Refuse a seed that NumPy does not take.

    Args:
        seed: The seed.
        place: The option or key that gives it, for the message.

    Raises:
        UserError: If it is negative or needs more than 32 bits.
    """
    if not 0 <= seed <= LARGEST_SEED:
        raise UserError(f"{place}: a seed is a whole number from 0 to {LARGEST_SEED} (2**32 - 1), got {seed}")
