"""Print the training setup, a line for every epoch, and the results of tests and validations."""

import math
import time
from collections.abc import Sequence
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping

from lgx.architectures import name_of
from lgx.components.class_metrics import AUROC, CALIBRATION, TOP5, interval
from lgx.components.metrics import metric_names
from lgx.core.progress import Progress
from lgx.core.provenance import hardware
from lgx.core.readable import aligned, clipped, digits, in_words, lasting, measured, tag_in_words
from lgx.core.rows import Row
from lgx.core.task import BALANCED, Task, ignored_target
from lgx.methods.base import Method
from lgx.training.callbacks.figures import ClassReport
from lgx.training.callbacks.results import SaveResults, measured_rows
from lgx.training.callbacks.run_weights import RunWeights


class PrintProgress(Callback):
    """Print network, batch, learning rate and steps, then a line after every epoch and every validation.

    Args:
        results: Computes the mean loss of an epoch; it must come before this callback in the trainer's list.
    """

    def __init__(self, results: SaveResults) -> None:
        self.results = results
        self._began = time.monotonic()
        self._first_step = 0
        self._training: Progress | None = None
        self._validated_at = -1  # step of the last validation: later lines do not repeat its scores

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the training setup."""
        self._began = time.monotonic()
        self._first_step = trainer.global_step
        if not isinstance(pl_module, Method) or not trainer.is_global_zero:
            return
        per_process = pl_module.data_module().batch_size
        processes, accumulate = trainer.world_size, trainer.accumulate_grad_batches
        effective = per_process * processes * accumulate
        rates = sorted({float(g.get("initial_lr", g["lr"])) for o in trainer.optimizers for g in o.param_groups})
        shown = ", ".join(f"{r:g}" for r in rates) if len(rates) < 5 else f"{rates[0]:.3g} to {rates[-1]:g}"
        parameters = sum(p.numel() for p in pl_module.parameters() if p.requires_grad)
        frozen = sum(p.numel() for p in pl_module.parameters() if not p.requires_grad)
        if trainer.global_step:
            print(f"resumed    after step {trainer.global_step:,}, in epoch {trainer.current_epoch + 1}")
        print(
            f"method     {pl_module.label} on {name_of(pl_module.architecture)}: {parameters:,} trainable parameters"
            f"{f', {frozen:,} frozen' if frozen else ''}\n"
            f"device     {hardware(trainer.strategy.root_device.type == 'cuda')}\n"
            f"batch      {effective} effective = {per_process} x {processes} process(es) x {accumulate} accumulated\n"
            f"rate       {shown} as configured, not scaled with the batch\n"
            f"steps      {pl_module.planned_steps() or 'until stopped'}, precision {trainer.precision}\n"
            f"run        {trainer.default_root_dir}",
            flush=True,
        )

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the scores of a validation within an epoch."""
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        self._validated_at = trainer.global_step
        if not trainer.is_last_batch:
            self._print(trainer, pl_module, f"step       {trainer.global_step:,}", None)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the line of the epoch."""
        number = trainer.current_epoch + 1
        total = trainer.max_epochs or -1
        place = f"{number:>{len(str(total))}}/{total}" if total > 0 else f"{number}"
        self._print(trainer, pl_module, f"epoch      {place}", self.results.epoch_loss)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the progress of a long epoch, and the expected end of the run."""
        batches = trainer.num_training_batches
        if trainer.is_global_zero and trainer.progress_bar_callback is None:
            total = int(batches) if math.isfinite(batches) else None
            self._training = Progress(f"epoch {trainer.current_epoch + 1}", total, first=30)
        steps = pl_module.planned_steps() if isinstance(pl_module, Method) else None
        if self._training is not None and steps:
            left = (steps - trainer.global_step) * trainer.accumulate_grad_batches
            self._training.later = max(0, left - int(batches))

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *batch: Any) -> None:
        """Count a batch of training."""
        if self._training is not None:
            self._training.advance()

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the duration, and the reason of an early end."""
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
        parts = [place] if loss is None else [place, f"train loss {digits(loss)}"]
        if self._validated_at == trainer.global_step and method.task is not None:
            tags = [f"val/{name}" for name in metric_names(method.task) if f"val/{name}" in trainer.callback_metrics]
            parts += [f"{tag_in_words(tag)} {measured(float(trainer.callback_metrics[tag]), tag)}" for tag in tags]
            if tags and (number := len(method.evaluations("val"))) > 1:
                parts[-len(tags)] += f" (mean of {number})"
        steps = method.planned_steps()
        done = trainer.global_step - self._first_step
        elapsed = time.monotonic() - self._began
        parts.append(f"after {lasting(elapsed)}")
        if steps is not None and done and steps > trainer.global_step:
            parts.append(f"{lasting(elapsed * (steps - trainer.global_step) / done)} left")
        print("  ".join(parts), flush=True)


class Report(Callback):
    """Print the scores of a test or of ``lgx validate`` on the first process, with the values of ``results.csv``.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        weights: Callback that chooses the run's weights at the end of training.
        classes: Callback with the scores of each class after a test.
    """

    def __init__(self, command: str, weights: RunWeights, classes: ClassReport) -> None:
        self.command, self.weights, self.classes = command, weights, classes

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the scores of ``lgx validate``, and of weights that the end of a training has finished."""
        if trainer.state.fn == "validate":
            self._print(trainer, pl_module, "val")

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the scores of the test."""
        self._print(trainer, pl_module, "test")

    def _print(self, trainer: Trainer, method: LightningModule, split: str) -> None:
        if not trainer.is_global_zero or not isinstance(method, Method) or method.task is None:
            return
        networks: dict[tuple[str, str], list[Row]] = {}
        for row in measured_rows(trainer, method, split):
            networks.setdefault((row.task, row.architecture), []).append(row)
        if not networks:
            return  # limit_test_batches left nothing to measure
        trained = method.epochs_trained
        label = {"val": "validation"}.get(split, split)
        place = ""
        weights = ""
        if self.command == "fit":
            label = "final" if trained else "untrained"
            place = f"{split} "
            weights = f", weights of {self.weights.words}" if trained else ""
        (first, *_) = networks.values()
        if len(networks) == 1:
            task = method.tasks[first[0].task]
            always = ""
            if split == "test" and (majority := self.classes.majority) is not None:
                name = task.class_names[majority[0]] if task.class_names else str(majority[0])
                always = f", largest class {clipped(name)} {measured(majority[1], 'acc')}"
            print(f"{label:<11}{place}{_sentence(first, task, always)}{weights}", flush=True)
            for line in self.classes.lines(task) if split == "test" and trained else ():
                print(f"{'':<11}{line}", flush=True)
        else:
            tag = f"{split}/{method.task.metric}"
            mean = f"{tag_in_words(tag)} {measured(float(trainer.callback_metrics[tag]), tag)}"
            print(f"{label:<11}{mean} on average of {len(networks)} networks{weights}:")
            lines = _table(list(networks.values()))
            for name, network in method.classifiers().items() if split == "test" and trained else ():
                sentences = self.classes.lines(method.tasks[network.task], name)
                lines += [name, *(f"  {line}" for line in sentences)] if sentences else []
            print("\n".join(f"{'':<11}{line}" for line in lines), flush=True)
        if self.command != "fit":
            epochs = f", {trained} epoch(s) of training" if trained else ""
            print(f"checkpoint {trainer.ckpt_path or 'none, an untrained start'}{epochs}", flush=True)


def _sentence(rows: Sequence[Row], task: Task, always: str = "") -> str:
    """``accuracy 84.2 % (95 %: 79.0 to 88.3) of 240 images of dtd (chance 8.3 %), balanced accuracy …, loss 1.204``."""
    first, *others = rows
    of_examples = first.metric.endswith("acc") and first.metric != BALANCED
    of_one_class = task.num_classes and ignored_target(task.kind) is None
    guess = of_one_class and first.metric.endswith("acc")
    chance = f" (chance {measured(1 / task.num_classes, 'acc')}{always if of_examples else ''})" if guess else ""
    rest = "".join(f", {in_words(row.metric)} {measured(row.value, row.metric, row.n)}" for row in others)
    value = f"{in_words(first.metric)} {measured(first.value, first.metric, first.n)}"
    if of_examples:
        low, high = interval(first.value, first.n)
        value += f" (95 %: {100 * low:.1f} to {100 * high:.1f})"
    return f"{value} of {first.n:,} {'texts' if task.reads_text else 'images'} of {task.name}{chance}{rest}"


def _table(networks: Sequence[Sequence[Row]]) -> list[str]:
    """One line for each network and data set, below the names of the columns, with equal widths."""
    metrics = list(dict.fromkeys(row.metric for rows in networks for row in rows))
    metrics = [name for name in metrics if name not in (AUROC, BALANCED, CALIBRATION, TOP5)]  # results.csv has them
    lines = [["data set", "architecture", *map(in_words, metrics), "examples"]]
    for rows in networks:
        values = {row.metric: measured(row.value, row.metric, row.n) for row in rows}
        lines.append(
            [rows[0].task, rows[0].architecture, *(values.get(name, "") for name in metrics), f"{rows[0].n:,}"]
        )
    return aligned(lines, left=2)
