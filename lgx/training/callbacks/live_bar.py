"""The progress bar of a run in a terminal."""

import time
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ProgressBar
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lgx.core.readable import digits, per_second
from lgx.methods.base import Method

_PAUSE = 0.1
"""Seconds between two drawings."""


class LiveBar(ProgressBar):
    """One bar below the lines of a run: the epoch, its batches, their speed, and the last loss that was logged.

    It disappears when the command ends. It reads a loss only at the steps that are logged, where the loggers read it,
    too. It has no thread, so that the processes of a loader can be forked at any time.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_enabled = True
        self._bar: Progress | None = None
        self._task: Any = None
        self._loss = ""
        self._batches = 0  # since the bar began
        self._began = self._drawn = 0.0

    def disable(self) -> None:
        """Show nothing, on all processes but the first."""
        self.is_enabled = False

    def enable(self) -> None:
        """Show the bar."""
        self.is_enabled = True

    # -- training -----------------------------------------------------------------------------------------------------

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Show the bar; a run that resumes within an epoch does not call on_train_epoch_start."""
        self._begin_epoch(trainer)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin an epoch."""
        self._begin(_epoch(trainer), self.total_train_batches)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count a batch."""
        every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
        if self._bar and isinstance(pl_module, Method) and every > 0 and trainer.global_step % every == 0:
            loss = pl_module.step_losses.get("loss")
            self._loss = "" if loss is None else f"  loss {digits(float(loss))}"
        self._advance(batch_idx + 1)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remove the bar before what the run reports at its end."""
        self._stop()

    # -- evaluation ---------------------------------------------------------------------------------------------------

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin a validation."""
        self._loss = ""
        self._begin(
            "validation", _total(trainer.num_sanity_val_batches if trainer.sanity_checking else trainer.num_val_batches)
        )

    def on_validation_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int, *loader: int
    ) -> None:
        """Count a batch."""
        self._advance(batch_idx + 1)

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remove the bar of ``lgx validate`` before its result."""
        if trainer.state.fn == "validate":
            self._stop()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Go on with the epoch."""
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._begin_epoch(trainer)

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin a test."""
        self._begin("test", _total(trainer.num_test_batches))

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int, *loader: int
    ) -> None:
        """Count a batch."""
        self._advance(batch_idx + 1)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remove the bar before the result."""
        self._stop()

    def on_predict_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin a prediction."""
        self._begin("prediction", _total(trainer.num_predict_batches))

    def on_predict_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int, *loader: int
    ) -> None:
        """Count a batch."""
        self._advance(batch_idx + 1)

    # -- the end ------------------------------------------------------------------------------------------------------

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Remove the bar."""
        self._stop()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Remove the bar before the message of an error."""
        self._stop()

    # -- the bar ------------------------------------------------------------------------------------------------------

    def _begin_epoch(self, trainer: Trainer) -> None:
        self._begin(_epoch(trainer), self.total_train_batches, trainer.fit_loop.batch_idx + 1)

    def _begin(self, description: str, total: float, done: int = 0) -> None:
        """Begin a stretch of batches, of which some may be done."""
        if not self.is_enabled:
            return
        if self._bar is None:
            columns = (
                TextColumn("{task.description:<12}"),
                BarColumn(30),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeRemainingColumn(),
            )
            self._bar = Progress(*columns, console=Console(), auto_refresh=False, transient=True)
            self._bar.start()
        else:
            self._bar.remove_task(self._task)
        known = None if total == float("inf") else int(total)
        self._task = self._bar.add_task(description, total=known, completed=done, note="")
        self._batches, self._began = 0, time.monotonic()
        self._draw()

    def _advance(self, done: int) -> None:
        """So many batches are done."""
        self._batches += 1
        now = time.monotonic()
        if self._bar is not None and now - self._drawn >= _PAUSE:
            speed = per_second(self._batches / max(1e-9, now - self._began))
            self._bar.update(self._task, completed=done, note=f"{speed} batches/s{self._loss}")
            self._draw()

    def _draw(self) -> None:
        assert self._bar is not None
        self._bar.refresh()
        self._drawn = time.monotonic()

    def _stop(self) -> None:
        if self._bar is not None:
            self._bar.stop()
            self._bar = None


def _epoch(trainer: Trainer) -> str:
    epochs = trainer.max_epochs
    return f"epoch {trainer.current_epoch + 1}{f'/{epochs}' if epochs and epochs > 0 else ''}"


def _total(batches: Any) -> float:
    """Number of batches of all loaders."""
    return float(sum(batches)) if isinstance(batches, list) else float(batches)
