"""Save measured values as rows of ``results.csv``."""

from functools import partial
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.core.provenance import commit, config_hash, hardware
from lgx.core.rows import Row, add_rows
from lgx.core.seed import run_seed
from lgx.methods.base import Method
from lgx.training.callbacks.save_config import SaveConfig
from lgx.training.run_folder import best_checkpoint, run_folder

_BEST = "hp_metric"
"""Lightning's name of the score that TensorBoard's table of hyper-parameters shows."""


def _common(trainer: Trainer, method: Method, split: str, epochs: int) -> "partial[Row]":
    """A row with the values that all rows of an evaluation share; its origin is commit, configuration and hardware."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    config = next(
        (config_hash(callback.identity.config) for callback in callbacks if isinstance(callback, SaveConfig)), ""
    )
    on_gpu = trainer.strategy.root_device.type == "cuda"
    return partial(
        Row,
        method=method.label,
        split=split,
        epochs=epochs,
        seed=run_seed(),
        run=str(run_folder(trainer) or ""),
        commit=commit(),
        config=config,
        hardware=hardware(on_gpu),
    )


def measured_rows(trainer: Trainer, method: Method, split: str) -> list[Row]:
    """The rows of the validation or test that has just ended.

    Args:
        trainer: The trainer.
        method: What it has evaluated; its task is known.
        split: ``val`` or ``test``.
    """
    # In fit, validation runs before current_epoch counts the epoch.
    epochs = trainer.current_epoch + 1 if trainer.state.fn == "fit" else method.epochs_trained
    if method.evaluates_starts:
        epochs = 0
    rows, row = [], _common(trainer, method, split, epochs)
    for task, architecture, tag in method.evaluations(split):
        if f"{tag}/n" not in trainer.callback_metrics:
            continue  # limit_val_batches has left no batch of this task
        rows += [
            row(
                architecture=architecture,
                task=task,
                metric=metric,
                value=float(trainer.callback_metrics[f"{tag}/{metric}"]),
                n=int(trainer.callback_metrics[f"{tag}/n"]),
            )
            for metric in method.reported_metrics(method.tasks[task], split)
        ]
    return rows


class SaveResults(Callback):
    """Add rows to ``results.csv`` in the run's folder: each metric of a validation or test, each epoch's training loss.

    The training loss is the mean over the epoch's examples of all processes, each with the weights of its step. The
    checkpoint holds the means of an interrupted epoch, one of each process, so that a resumed run writes the same row.
    Methods that evaluate untrained descendants have no such row: their other rows describe the descendants, not the
    network that is trained.

    Attributes:
        epoch_loss: Mean training loss of the epoch that has ended, over the examples of all processes.
    """

    def __init__(self) -> None:
        self.epoch_loss: float | None = None
        self._epoch, self._seen = -1, 0
        self._mean: Any = 0.0  # a tensor once it has seen a batch: nothing waits for the device at every step
        self._shares: list[tuple[int, float]] = []

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Continue an interrupted epoch with this process's share of it."""
        shares, self._shares = self._shares, []
        if len(shares) == trainer.world_size:
            self._seen, self._mean = shares[trainer.global_rank]
        elif shares:  # the number of processes has changed: the first one continues for all
            seen = sum(count for count, _ in shares)
            mean = sum(count * mean for count, mean in shares) / max(1, seen)
            self._seen, self._mean = (seen, mean) if trainer.is_global_zero else (0, 0.0)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Add the batch to the epoch's mean."""
        if self._epoch != trainer.current_epoch:
            self._epoch, self._seen, self._mean = trainer.current_epoch, 0, 0.0
        assert isinstance(pl_module, Method)
        self._seen += len(batch.inputs)
        loss = pl_module.step_losses["loss"]
        self._mean = self._mean + (loss - self._mean) * (len(batch.inputs) / self._seen)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Add a row of the training split."""
        if not isinstance(pl_module, Method) or self._epoch != trainer.current_epoch:
            return
        sums = torch.as_tensor([self._mean * self._seen, self._seen], device=pl_module.device)
        total, seen = trainer.strategy.reduce(sums, reduce_op="sum").tolist()
        self.epoch_loss = total / seen
        folder = run_folder(trainer)
        if pl_module.evaluates_starts or folder is None or not trainer.is_global_zero:
            return
        evaluations = pl_module.evaluations("train")
        if len(evaluations) > 1:
            return  # an epoch over several tasks has no loss of one of them
        task, architecture, _ = evaluations[0]
        row = _common(trainer, pl_module, "train", trainer.current_epoch + 1)
        measured = row(architecture=architecture, task=task, metric="loss", value=self.epoch_loss, n=int(seen))
        add_rows(folder / "results.csv", [measured])

    def state_dict(self) -> dict[str, Any]:
        """Mean and number of examples of the epoch so far, of this process."""
        return {"epoch": self._epoch, "seen": self._seen, "mean": float(self._mean)}

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the shares of all processes; only the first process writes the checkpoint."""
        if trainer.world_size > 1:
            gather, device = trainer.strategy.all_gather, pl_module.device
            seen = gather(torch.tensor(self._seen, device=device)).tolist()
            mean = gather(torch.tensor(float(self._mean), device=device)).tolist()
            checkpoint["callbacks"][self.state_key]["shares"] = [list(share) for share in zip(seen, mean, strict=True)]

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue an interrupted epoch."""
        self._epoch, self._seen, self._mean = state_dict["epoch"], state_dict["seen"], state_dict["mean"]
        self._shares = [(seen, mean) for seen, mean in state_dict.get("shares", [(self._seen, self._mean)])]

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Add rows of the validation split."""
        self._save(trainer, pl_module, "val")

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Log the best validation score, for TensorBoard's HPARAMS tab among others."""
        best = best_checkpoint(trainer)
        if best is not None and best.best_model_score is not None:
            for logger in trainer.loggers:
                logger.log_metrics({_BEST: float(best.best_model_score)}, step=trainer.global_step)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Add rows of the test split."""
        self._save(trainer, pl_module, "test")

    def _save(self, trainer: Trainer, method: LightningModule, split: str) -> None:
        folder = run_folder(trainer)
        if trainer.sanity_checking or folder is None or not trainer.is_global_zero:
            return
        if not isinstance(method, Method) or method.task is None:
            return
        add_rows(folder / "results.csv", measured_rows(trainer, method, split))
