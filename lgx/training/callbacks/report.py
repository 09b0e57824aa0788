"""Print what a test or a validation has measured, and of what."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.core.readable import aligned, in_words, measured, tag_in_words
from lgx.core.rows import Row
from lgx.core.task import Task
from lgx.methods.base import Method
from lgx.training.callbacks.learngene import SaveLearngene
from lgx.training.callbacks.results import measured_rows
from lgx.training.run_folder import BEST, LAST, best_checkpoint


class Report(Callback):
    """Print the scores of a test or of ``lgx validate`` on the first process, with the values of ``results.csv``.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
    """

    def __init__(self, command: str) -> None:
        self.command = command

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Print the scores of ``lgx validate``."""
        if self.command == "validate":
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
            return  # limit_test_batches has left nothing to measure
        trained = method.epochs_trained
        label, place, weights = {"val": "validation"}.get(split, split), "", ""
        if self.command == "fit":
            label, place = "final" if trained else "untrained", f"{split} "
            weights = f", weights after epoch {trained}" if trained else ""
        (first, *_) = networks.values()
        if len(networks) == 1:
            print(f"{label:<11}{place}{_sentence(first, method.tasks[first[0].task])}{weights}", flush=True)
        else:
            tag = f"{split}/{method.task.metric}"
            mean = f"{tag_in_words(tag)} {measured(float(trainer.callback_metrics[tag]), tag)}"
            print(f"{label:<11}{mean} on average of {len(networks)} networks{weights}:")
            print("\n".join(f"{'':<11}{line}" for line in _table(list(networks.values()))), flush=True)
        if self.command != "fit":
            epochs = f", {trained} epoch(s) of training" if trained else ""
            print(f"checkpoint {trainer.ckpt_path or 'none, an untrained start'}{epochs}", flush=True)


def end_of_run(trainer: Trainer, folder: Path) -> str:
    """The best checkpoint with its score, and the command that tests it, or the last one if there is no best one.

    Args:
        trainer: The trainer that has finished.
        folder: The run's folder.
    """
    kind = "best" if (folder / "checkpoints" / BEST).is_file() else "last"
    config = shlex.quote(str(folder / "config.yaml"))
    return f"{_best(trainer, folder)}\nnext       lgx test --config {config} --ckpt_path {kind}"


def _best(trainer: Trainer, folder: Path) -> str:
    best, checkpoints = best_checkpoint(trainer), folder / "checkpoints"
    if best is None or not Path(best.best_model_path).is_file():
        why = f", because {best.monitor} was not measured" if best and best.best_model_score is None else ""
        return f"best       none was saved{why}; {checkpoints / LAST} has the last weights"
    path, tag = Path(best.best_model_path), str(best.monitor)
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    epoch, step = next(c.best_progress for c in callbacks if isinstance(c, SaveLearngene) and c.best_progress)
    score = best.best_model_score
    shown = checkpoints / path.name if path.parent == checkpoints.resolve() else path
    value = "" if score is None else f"{tag_in_words(tag)} {measured(float(score), tag)} "
    return f"best       {value}in epoch {epoch} at step {step:,}: {shown}"


def _sentence(rows: Sequence[Row], task: Task) -> str:
    """``accuracy 84.2 % of 240 images of dtd (chance 8.3 %), loss 1.204``."""
    first, *others = rows
    of_one_class = task.num_classes and task.kind not in ("segmentation", "multilabel")
    guess = of_one_class and any(row.metric.endswith("acc") for row in rows)
    chance = f" (chance {measured(1 / task.num_classes, 'acc')})" if guess else ""
    rest = "".join(f", {in_words(row.metric)} {measured(row.value, row.metric, row.n)}" for row in others)
    value = f"{in_words(first.metric)} {measured(first.value, first.metric, first.n)}"
    return f"{value} of {first.n:,} {'texts' if task.kind == 'text' else 'images'} of {task.name}{chance}{rest}"


def _table(networks: Sequence[Sequence[Row]]) -> list[str]:
    """One line for each network and data set, below the names of the columns, with equal widths."""
    metrics = list(dict.fromkeys(row.metric for rows in networks for row in rows))
    lines = [["data set", "architecture", *map(in_words, metrics), "examples"]]
    for rows in networks:
        values = {row.metric: measured(row.value, row.metric, row.n) for row in rows}
        lines.append(
            [rows[0].task, rows[0].architecture, *(values.get(name, "") for name in metrics), f"{rows[0].n:,}"]
        )
    return aligned(lines, left=2)
