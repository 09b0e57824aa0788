"""Where a run writes."""

from pathlib import Path

from lightning.pytorch import Trainer


def run_folder(trainer: Trainer) -> Path | None:
    """The run's folder; None where nothing shall be written (``fast_dev_run``).

    Not ``trainer.log_dir``: that is a broadcast, and hangs when only one process asks.
    """
    return None if getattr(trainer, "fast_dev_run", False) else Path(trainer.default_root_dir)
