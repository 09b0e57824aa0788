"""Print what is trained before the first step, and a line for every epoch."""

import time
from collections.abc import Mapping
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping

from lgx.architectures import name_of
from lgx.components.metrics import metric_names
from lgx.core.provenance import hardware
from lgx.core.readable import digits, lasting, measured, tag_in_words
from lgx.methods.base import Method
from lgx.training.callbacks.results import SaveResults


class PrintProgress(Callback):
    """Print network, batch, learning rate and steps; then a line after every epoch, and after validations within one.

    Args:
        results: Computes the mean loss of an epoch; it must come before this callback in the trainer's list.
    """

    def __init__(self, results: SaveResults) -> None:
        self.results = results
        self._began, self._first_step = time.monotonic(), 0
        self._validated_at = -1  # step of the last validation: later lines do not repeat its scores

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print what will be trained, and log its sizes."""
        self._began, self._first_step = time.monotonic(), trainer.global_step
        if not isinstance(pl_module, Method) or not trainer.is_global_zero:
            return
        per_process = pl_module.data_module().batch_size
        processes, accumulate = trainer.world_size, trainer.accumulate_grad_batches
        effective = per_process * processes * accumulate
        rates = sorted({float(g.get("initial_lr", g["lr"])) for o in trainer.optimizers for g in o.param_groups})
        parameters = sum(p.numel() for p in pl_module.parameters() if p.requires_grad)
        frozen = sum(p.numel() for p in pl_module.parameters() if not p.requires_grad)
        if trainer.global_step:
            print(f"resumed    after step {trainer.global_step:,}, in epoch {trainer.current_epoch + 1}")
        print(
            f"method     {pl_module.label} on {name_of(pl_module.architecture)}: {parameters:,} trainable parameters"
            f"{f', {frozen:,} frozen' if frozen else ''}\n"
            f"device     {hardware(trainer.strategy.root_device.type == 'cuda')}\n"
            f"batch      {effective} effective = {per_process} x {processes} process(es) x {accumulate} accumulated\n"
            f"rate       {', '.join(f'{r:g}' for r in rates)} as configured, not rescaled by the batch\n"
            f"steps      {pl_module.known_steps() or 'until stopped'}, precision {trainer.precision}\n"
            f"run        {trainer.default_root_dir}",
            flush=True,
        )
        sizes: dict[str, float] = {"effective_batch": effective, "trainable_parameters": parameters}
        for logger in trainer.loggers:
            logger.log_metrics(sizes, step=trainer.global_step)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the scores of a validation within an epoch."""
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        self._validated_at = trainer.global_step
        if not trainer.is_last_batch:
            self._print(trainer, pl_module, f"step       {trainer.global_step:,}", None)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the line of the epoch."""
        number, total = trainer.current_epoch + 1, trainer.max_epochs or -1
        place = f"{number:>{len(str(total))}}/{total}" if total > 0 else f"{number}"
        self._print(trainer, pl_module, f"epoch      {place}", self.results.epoch_loss)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print how long it took, and why it ended early."""
        if not trainer.is_global_zero:
            return
        for callback in trainer.early_stopping_callbacks:
            if isinstance(callback, EarlyStopping) and callback.stopping_reason_message:
                reason = callback.stopping_reason_message.removesuffix(" Signaling Trainer to stop.")
                print(f"stopped    early: {reason}")
        took = lasting(time.monotonic() - self._began)
        print(f"trained    {trainer.global_step - self._first_step:,} step(s) in {took}, with validations", flush=True)

    def _print(self, trainer: Trainer, method: LightningModule, place: str, loss: float | None) -> None:
        if not isinstance(method, Method) or not trainer.is_global_zero:
            return
        metrics: dict[str, Any] = {}
        if self._validated_at == trainer.global_step and method.task is not None:
            tags = [f"val/{name}" for name in metric_names(method.task)]
            metrics = {tag: trainer.callback_metrics[tag] for tag in tags if tag in trainer.callback_metrics}
        steps, done = method.known_steps(), trainer.global_step - self._first_step
        left = None if steps is None or not done else max(0, steps - trainer.global_step) / done
        elapsed = time.monotonic() - self._began
        print(epoch_line(place, loss, metrics, len(method.evaluations("val")), elapsed, left), flush=True)


def epoch_line(
    place: str, loss: float | None, metrics: Mapping[str, Any], evaluations: int, elapsed: float, left: float | None
) -> str:
    """The line of an epoch: ``epoch  3/30  train loss 1.204  val accuracy 52.0 %  after 12 s  1 min 48 s left``.

    Args:
        place: Where the run stands.
        loss: Mean training loss of the epoch; None within one.
        metrics: Tag -> value of the validation; empty if there was none.
        evaluations: Number of evaluations of which the values are means.
        elapsed: Seconds since training began.
        left: Steps that are left, as a multiple of those that these seconds took; None if unknown.
    """
    scores = [f"{tag_in_words(tag)} {measured(float(value), tag)}" for tag, value in metrics.items()]
    if scores and evaluations > 1:
        scores[0] += f" (mean of {evaluations})"
    losses = [] if loss is None else [f"train loss {digits(loss)}"]
    times = [f"after {lasting(elapsed)}", *([f"{lasting(elapsed * left)} left"] if left else [])]
    return "  ".join([place, *losses, *scores, *times])
