"""The seed of the run, and which seeds there are."""

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral

from lgx.errors import UserError

LARGEST_SEED = 2**32 - 1


def run_seed() -> int:
    """The run's seed, which Lightning's ``seed_everything`` stores in the environment; 0 without one."""
    return int(os.environ.get("PL_GLOBAL_SEED", 0))


def seed_of(value: int | bool) -> int:
    """The seed of a run; ``true`` and ``false`` are Lightning's words for the seed 0 and for none."""
    return 0 if isinstance(value, bool) else value


def check_seed(seed: int, option: str) -> None:
    """Refuse a seed that NumPy does not take.

    Args:
        seed: The seed.
        option: The option or key that gives it, for the message.
    """
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= seed <= LARGEST_SEED:
        raise UserError(f"{option}: a seed is a whole number from 0 to {LARGEST_SEED} (2**32 - 1), got {seed}")


@contextmanager
def seeded_rng(seed: int) -> Iterator[None]:
    """Seed Python's, NumPy's and torch's CPU generators inside the block and restore them after it."""
    import numpy as np
    import torch

    states = random.getstate(), np.random.get_state(), torch.default_generator.get_state()
    random.seed(seed)
    np.random.seed(seed)
    torch.default_generator.manual_seed(seed)
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.default_generator.set_state(states[2])


def seed_step(*parts: int) -> None:
    """Seed torch and NumPy for one step, by numbers such as seed, epoch, batch and rank.

    ``torch.manual_seed`` also remembers the seed for a GPU that may come later, with a formatted traceback, which takes
    a millisecond of each step: only the generators of the devices in use are seeded.
    """
    import numpy as np
    import torch

    of_torch, of_numpy = map(int, np.random.SeedSequence(parts).generate_state(2))
    torch.default_generator.manual_seed(of_torch)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(of_torch)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(of_torch)
    np.random.seed(of_numpy)
