"""Where a run writes, and which checkpoint is its best."""

from pathlib import Path

from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint


def run_folder(trainer: Trainer) -> Path | None:
    """The run's folder; None where nothing shall be written (``fast_dev_run``).

    Not ``trainer.log_dir``: that is a broadcast, and hangs when only one process asks.
    """
    return None if getattr(trainer, "fast_dev_run", False) else Path(trainer.default_root_dir)


def best_checkpoint(trainer: Trainer) -> ModelCheckpoint | None:
    """The callback that keeps the best checkpoint; ``trainer.checkpoint_callback`` may be another."""
    return next((c for c in trainer.checkpoint_callbacks if isinstance(c, ModelCheckpoint)), None)
