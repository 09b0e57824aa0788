"""Write checkpoints in one step; save the one that a run resumes from, and the weights that it ends with."""

import os
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, StochasticWeightAveraging, WeightAveraging

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.host.failures import write_errors
from lgx.host.files import atomic_path
from lgx.training.run_folder import FINAL, LAST


class AtomicCheckpointIO(TorchCheckpointIO):
    """Write a checkpoint beside its target and rename it.

    Lightning writes it to the system's temporary folder and moves it. Between two file systems the move is a copy,
    and a kill during the copy leaves half a file.

    Attributes:
        is_restoring: Whether a checkpoint was read whose values are not yet all in place; ``Resume`` ends this.
    """

    is_restoring = False

    def load_checkpoint(
        self, path: Any, map_location: Any = lambda storage, _: storage, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Load tensors and plain types only; environment variables cannot change this. Other types could run code."""
        loaded: dict[str, Any] = super().load_checkpoint(path, map_location, weights_only=True)
        self.is_restoring = True
        return loaded

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Save a checkpoint."""
        with atomic_path(path) as temporary, write_errors(RuntimeError):  # as torch's zip writer reports a full disk
            torch.save(checkpoint, temporary)


class LastCheckpoint(Checkpoint):
    """Save ``last.ckpt`` after every epoch, and every so many steps if asked.

    Lightning's ``save_last`` saves only when the best checkpoint changes. A run whose score does not improve would lose
    epochs.

    Callbacks that average weights put the average into the network when training ends. Then ``final.ckpt`` keeps these
    weights. The checkpoint of the last epoch gets its name after that, so that a run which has its ``last.ckpt`` also
    has its final weights, whenever it is killed.

    Args:
        folder: The run's folder of checkpoints.
        every: Optimizer steps between checkpoints within an epoch; None for none. Where a validation follows the step,
            the checkpoint waits for the next step.
    """

    def __init__(self, folder: Path, every: int | None = None) -> None:
        self.path, self.final, self.every = folder / LAST, folder / FINAL, every
        self._waiting = folder / ".last.ckpt.waiting.tmp"
        self._started_at = self._saved_at = 0
        self._is_waiting = False

    def may_save(self, trainer: Trainer, batch_idx: int) -> bool:
        """Whether a run that resumes after this batch continues exactly as this run does.

        False while gradients accumulate, because a checkpoint does not hold them, and before a validation, because the
        resumed run would skip it. Lightning's averaging over epochs makes its schedule when an epoch starts.
        """
        if self._averages(trainer, StochasticWeightAveraging):
            return False
        by_total = trainer.check_val_every_n_epoch is None
        batches = 1 + (trainer.fit_loop.epoch_loop.total_batch_idx if by_total else batch_idx)
        validates = trainer.is_last_batch or batches % (trainer.val_check_batch or float("inf")) == 0
        return not validates and (batch_idx + 1) % trainer.accumulate_grad_batches == 0

    def save(self, trainer: Trainer) -> None:
        """Save now. All processes must call this together."""
        trainer.save_checkpoint(self.path, weights_only=False)
        self._saved_at = trainer.global_step

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remove the final weights of a run that trains on."""
        self._started_at = trainer.global_step
        if trainer.is_global_zero:
            self.final.unlink(missing_ok=True)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save within an epoch."""
        last = max(self._started_at, self._saved_at)
        is_due = self.every is not None and trainer.global_step // self.every > last // self.every
        if is_due and self.may_save(trainer, batch_idx):
            self.save(trainer)
        if _ends_within_epoch(trainer) and self.may_save(trainer, batch_idx):
            self._save_for_the_end(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save if the run ends within an epoch after this validation."""
        if trainer.state.fn != "fit" or trainer.sanity_checking or self._averages(trainer, StochasticWeightAveraging):
            return
        is_update = (trainer.fit_loop.batch_idx + 1) % trainer.accumulate_grad_batches == 0
        if _ends_within_epoch(trainer) and is_update:
            self._save_for_the_end(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save after an epoch, after its validation and the best checkpoint.

        An epoch within which the run ends is saved already: a checkpoint of its end would skip the rest of it.
        """
        if self._is_waiting and self._saved_at == trainer.global_step:
            return
        if not _is_last_epoch(trainer):
            self.save(trainer)
        else:
            self._save_for_the_end(trainer)

    def _save_for_the_end(self, trainer: Trainer) -> None:
        trainer.save_checkpoint(self._waiting, weights_only=False)
        self._saved_at, self._is_waiting = trainer.global_step, True

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the final weights if they are averages, and give the waiting checkpoint its name."""
        if not self._is_waiting:
            if trainer.global_step != self._saved_at:
                self.save(trainer)
            return
        if self._averages(trainer, StochasticWeightAveraging, WeightAveraging):
            trainer.save_checkpoint(self.final, weights_only=True)
        if trainer.is_global_zero:
            os.replace(self._waiting, self.path)
        trainer.strategy.barrier()

    def _averages(self, trainer: Trainer, *kinds: type[Callback]) -> bool:
        callbacks = trainer.callbacks  # type: ignore[attr-defined]
        return any(isinstance(callback, kinds) for callback in callbacks)


class FinalWeights(Callback):
    """Restore the final weights of a run whose training is done, before its learngene is saved and it is tested.

    Callbacks that average weights put the average into the network when training ends. A run that is resumed after that
    moment does not train, so that these callbacks do nothing, and its checkpoint holds the weights before averaging.

    Args:
        folder: The run's folder of checkpoints.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._trained = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note that this process trains."""
        self._trained = True

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Load the weights that a test of the last checkpoint would load."""
        if self._trained or trainer.ckpt_path is None:
            return
        final = self.folder / FINAL
        checkpoint = load_checkpoint(final if final.is_file() else trainer.ckpt_path)
        # Without final weights only Lightning's averaging callback, which keeps both, has changed the network.
        if final.is_file() or "current_model_state" in checkpoint:
            pl_module.load_state_dict(checkpoint["state_dict"])


def _ends_within_epoch(trainer: Trainer) -> bool:
    """Whether training is to end after this batch, which is not the last one of its epoch."""
    return (trainer.global_step == trainer.max_steps or trainer.should_stop) and not trainer.is_last_batch


def _is_last_epoch(trainer: Trainer) -> bool:
    """Whether training ends after this epoch. Lightning counts the epoch when it is asked, so its count is restored."""
    progress = trainer.fit_loop.epoch_progress.current
    completed = progress.completed
    done = trainer.fit_loop.done
    progress.completed = completed
    return done
