"""The seed of the run."""

import os


def run_seed() -> int:
    """The run's seed, which Lightning's ``seed_everything`` stores in the environment; 0 without one."""
    return int(os.environ.get("PL_GLOBAL_SEED", 0))
