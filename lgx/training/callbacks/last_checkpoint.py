"""Save the checkpoint that a run resumes from."""

from pathlib import Path
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint


class LastCheckpoint(Checkpoint):
    """Save ``last.ckpt`` after every epoch, and every so many steps if asked.

    Lightning's ``save_last`` saves only when the best checkpoint changes. A run whose score does not improve would lose
    epochs.

    Args:
        folder: The run's folder of checkpoints.
        every: Optimizer steps between checkpoints within an epoch; None for none.
    """

    def __init__(self, folder: Path, every: int | None = None) -> None:
        self.path, self.every = folder / "last.ckpt", every
        self._saved_at = 0

    def may_save(self, trainer: Trainer, batch_idx: int) -> bool:
        """Whether a run that resumes after this batch continues exactly as this run does.

        False while gradients accumulate, because a checkpoint does not hold them, and before a validation, because the
        resumed run would skip it.
        """
        validates = trainer.is_last_batch or (batch_idx + 1) % (trainer.val_check_batch or float("inf")) == 0
        return not validates and (batch_idx + 1) % trainer.accumulate_grad_batches == 0

    def save(self, trainer: Trainer) -> None:
        """Save now. All processes must call this together."""
        trainer.save_checkpoint(self.path, weights_only=False)
        self._saved_at = trainer.global_step

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save within an epoch."""
        step = trainer.global_step
        if self.every and step % self.every == 0 and step != self._saved_at and self.may_save(trainer, batch_idx):
            self.save(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save after an epoch, after its validation and the best checkpoint."""
        self.save(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save if ``max_steps`` ends the run within an epoch."""
        if trainer.global_step != self._saved_at:
            self.save(trainer)
