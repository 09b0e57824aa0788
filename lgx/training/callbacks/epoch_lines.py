"""Print one line for every epoch: losses, validation metrics, speed, time left."""

import time
from typing import Any, NamedTuple

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping, Timer

from lgx.components.metrics import metric_names
from lgx.core.readable import digits, lasting, measured, per_second, tag_in_words
from lgx.methods.base import Method
from lgx.training.callbacks.results import SaveResults

_SHORTEST, _LONGEST = 10.0, 300.0
"""Seconds between two lines within an epoch: as long as the run has taken so far, within these bounds."""


class _Point(NamedTuple):
    """A point of the run, from which the next line measures.

    Attributes:
        clock: Seconds of training, without validation.
        examples: Training examples of this process.
        loss: Value of :attr:`SaveResults.running`.
    """

    clock: float
    examples: int
    loss: tuple[int, Any]


class EpochLines(Callback):
    """Print a line at the end of every epoch, and within long ones after a validation and from time to time.

    In a run that ``trainer.max_steps`` ends, epochs are not counted: a line follows every validation, and otherwise
    comes from time to time. Only the first process prints. Losses are read from the device for a line alone, so that no
    step waits for them.

    Args:
        results: Computes the mean loss; it must come before this callback in the trainer's list.
    """

    def __init__(self, results: SaveResults) -> None:
        self.results = results
        self._steps: int | None = None
        self._by_steps = False
        self._is_fresh = self._validated = False  # a validation since the last line, and in this epoch
        self._first_step = self._examples = 0
        self._started = self._printed = self._paused = self._validation = self._clock = 0.0
        self._epoch = self._line = _Point(0.0, 0, (0, 0.0))

    # -- when ---------------------------------------------------------------------------------------------------------

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Begin to measure; a resumed run measures from here on."""
        if not isinstance(pl_module, Method) or not trainer.is_global_zero:
            return
        self._steps, self._by_steps = pl_module.known_steps(), _ends_within_epochs(trainer, pl_module)
        self._started = self._printed = time.monotonic()
        self._first_step, self._paused = trainer.global_step, 0.0
        self._is_fresh = self._validated = False
        self._clock = self._now()
        # A run that resumes within an epoch continues its mean loss, and does not call on_train_epoch_start.
        self._epoch = self._line = _Point(self._clock, self._examples, self.results.running)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Measure the epoch from here on."""
        self._validated = False
        self._epoch = self._line = _Point(self._now(), self._examples, (0, 0.0))

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count the examples; print a line if the last one is long ago."""
        self._examples += len(batch.inputs)
        self._clock = self._now()
        if not trainer.is_last_batch and self._is_due():
            self._print_step(trainer, pl_module)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Stop the clock of training."""
        self._validation = time.monotonic()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Go on with the clock; after a validation within an epoch, print a line."""
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        self._paused += time.monotonic() - self._validation
        self._is_fresh = self._validated = True
        if not trainer.is_last_batch:
            self._print_step(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the line of the epoch."""
        if self._by_steps and not (self._is_fresh or self._is_due() or self._steps_left(trainer) == 0):
            return
        if self._line is not self._epoch and self._line.examples == self._examples:
            return  # the run ends within the epoch, right after a line
        loss = self.results.epoch_loss
        if loss is None or not isinstance(pl_module, Method):
            return
        self._is_fresh = self._is_fresh or (self._validated and not self._by_steps)
        if self._by_steps:
            place = f"step       {_of(trainer.global_step, self._steps)}"
        else:
            epochs = trainer.max_epochs if trainer.max_epochs and trainer.max_epochs > 0 else None
            place = f"epoch      {_of(trainer.current_epoch + 1, epochs)}"
        self._print(trainer, pl_module, place, loss, self._epoch)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print how long it took, and why it ended early."""
        if not trainer.is_global_zero:
            return
        for callback in trainer.early_stopping_callbacks:
            if isinstance(callback, EarlyStopping) and callback.stopping_reason_message:
                reason = callback.stopping_reason_message.removesuffix(" Signaling Trainer to stop.")
                print(f"stopped    early: {reason}")
        steps, took = trainer.global_step - self._first_step, lasting(time.monotonic() - self._started)
        print(f"trained    {steps:,} step(s) in {took}, with validations", flush=True)

    # -- what ---------------------------------------------------------------------------------------------------------

    def _now(self) -> float:
        return time.monotonic() - self._paused

    def _is_due(self) -> bool:
        now = time.monotonic()
        return now - self._printed >= min(max(now - self._started, _SHORTEST), _LONGEST)

    def _steps_left(self, trainer: Trainer) -> int | None:
        return None if self._steps is None else max(0, self._steps - trainer.global_step)

    def _print_step(self, trainer: Trainer, module: LightningModule) -> None:
        """Print a line within an epoch, with the loss since the last line that had new examples."""
        if not isinstance(module, Method) or not trainer.is_global_zero:
            return
        place = f"step       {_of(trainer.global_step, self._steps)}"
        since = self._line if self._line.examples < self._examples else self._epoch
        self._print(trainer, module, place, self.results.loss_since(since.loss), since)

    def _print(self, trainer: Trainer, method: Method, place: str, loss: float, since: _Point) -> None:
        """Print a line; without loss and speed if a run has resumed right before a validation."""
        if not trainer.is_global_zero:
            return
        parts = self._validation_parts(trainer, method)
        if examples := self._examples - since.examples:
            unit = "examples" if method.architecture.kind == "text" else "images"
            rate = examples * trainer.world_size / max(1e-9, self._clock - since.clock)
            parts = [f"train loss {digits(loss)}", *parts, f"{per_second(rate)} {unit}/s"]
        left = self._time_left(trainer)
        if left is not None:
            parts.append(f"{lasting(left)} left")
        print("  ".join([place, *parts]), flush=True)
        self._line = _Point(self._now(), self._examples, self.results.running)
        self._printed, self._is_fresh = time.monotonic(), False

    def _validation_parts(self, trainer: Trainer, method: Method) -> list[str]:
        """The metrics of the validation since the last line, if there was one."""
        if not self._is_fresh or method.task is None:
            return []
        found, number = trainer.callback_metrics, len(method.evaluations("val"))
        tags = [f"val/{name}" for name in metric_names(method.task) if f"val/{name}" in found]
        parts = [f"{tag_in_words(tag)} {measured(float(found[tag]), tag)}" for tag in tags]
        if parts and number > 1:
            parts[0] += f" (mean of {number})"
        return parts

    def _time_left(self, trainer: Trainer) -> float | None:
        """Seconds to the end at the mean speed so far, with validations; None if unknown or at the end."""
        done, left = trainer.global_step - self._first_step, self._steps_left(trainer)
        times = [] if not done or left is None else [left * (time.monotonic() - self._started) / done]
        limits = (callback.time_remaining() for callback in _timers(trainer))
        times += [max(0.0, limit) for limit in limits if limit is not None]
        return None if left == 0 else min(times, default=None)


def _of(number: int, total: int | None) -> str:
    """``3/30``, ``  120/1,000``; without a known end the number alone."""
    return f"{number:,}" if total is None else f"{number:>{len(f'{total:,}')},}/{total:,}"


def _timers(trainer: Trainer) -> list[Timer]:
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return [callback for callback in callbacks if isinstance(callback, Timer)]


def _ends_within_epochs(trainer: Trainer, method: Method) -> bool:
    """Whether ``max_steps`` ends the run before ``max_epochs`` does."""
    if trainer.max_steps <= 0:
        return False
    if not trainer.max_epochs or trainer.max_epochs < 0:
        return True
    per_epoch = -(-method.data_module().train_dataloader().epoch_length // trainer.accumulate_grad_batches)
    return bool(trainer.max_steps < trainer.max_epochs * per_epoch)
