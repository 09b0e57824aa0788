"""Print what a test or a validation has measured, and of what."""

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.core.readable import aligned, in_words, measured, tag_in_words
from lgx.core.rows import Row
from lgx.core.task import Task
from lgx.methods.base import Method
from lgx.training.callbacks.learngene import SaveLearngene
from lgx.training.callbacks.results import measured_rows
from lgx.training.run_folder import BEST, LAST, best_checkpoint

_INDENT = " " * 11


class _Measurement(NamedTuple):
    """What was measured of one network on one data set.

    Attributes:
        task: The data set.
        architecture: Name of the network's architecture.
        values: Metrics in words, with their values.
        examples: ``359 images``.
        chance: Accuracy of a guess; empty where it says nothing.
    """

    task: str
    architecture: str
    values: dict[str, str]
    examples: str
    chance: str


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
        trained = method.epochs_trained
        if self.command == "fit":
            label = "final" if trained else "untrained"
            weights = f", weights after epoch {trained}" if trained else ""
        else:
            label, weights = {"val": "validation"}.get(split, split), ""
        scores = _measurements(measured_rows(trainer, method, split), method.tasks)
        if not scores:
            return  # limit_test_batches has left nothing to measure
        if len(scores) == 1:
            place = f"{split} " if self.command == "fit" else ""
            print(f"{label:<11}{place}{_sentence(scores[0])}{weights}", flush=True)
        else:
            print(f"{label:<11}{_mean(trainer, method, scores, split)}{weights}:")
            print("\n".join(f"{_INDENT}{line}" for line in _table(scores)), flush=True)
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


def _measurements(rows: Sequence[Row], tasks: dict[str, Task]) -> list[_Measurement]:
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((row.task, row.architecture), []).append(row)
    scores = []
    for (name, architecture), own in found.items():
        task = tasks[name]
        one_of_them = task.num_classes and task.kind not in ("segmentation", "multilabel")
        guess = one_of_them and any(row.metric.endswith("acc") for row in own)
        scores.append(
            _Measurement(
                task=name,
                architecture=architecture,
                values={in_words(row.metric): measured(row.value, row.metric, row.n) for row in own},
                examples=f"{own[0].n:,} {'texts' if task.kind == 'text' else 'images'}",
                chance=measured(1 / task.num_classes, "acc") if guess else "",
            )
        )
    return scores


def _mean(trainer: Trainer, method: Method, scores: Sequence[_Measurement], split: str) -> str:
    """``test accuracy 84.2 % on average of 10 data sets``."""
    numbers = {
        "data sets": len({score.task for score in scores}),
        "architectures": len({s.architecture for s in scores}),
    }
    of = " x ".join(f"{number} {what}" for what, number in numbers.items() if number > 1)
    tag = f"{split}/{method.task.metric if method.task else ''}"
    mean = trainer.callback_metrics.get(tag)
    return (
        f"{split} of {of}" if mean is None else f"{tag_in_words(tag)} {measured(float(mean), tag)} on average of {of}"
    )


def _sentence(score: _Measurement) -> str:
    """``accuracy 84.2 % of 240 images of dtd (chance 8.3 %), loss 1.204``."""
    (metric, value), *others = score.values.items()
    chance = f" (chance {score.chance})" if score.chance else ""
    rest = "".join(f", {name} {shown}" for name, shown in others)
    return f"{metric} {value} of {score.examples} of {score.task}{chance}{rest}"


def _table(scores: Sequence[_Measurement]) -> list[str]:
    """One line for each network and data set, below the names of the columns, with equal widths."""
    metrics = list(dict.fromkeys(name for score in scores for name in score.values))
    lines = [["data set", "architecture", *metrics, "examples", "chance"]]
    lines += [
        [
            score.task,
            score.architecture,
            *(score.values.get(name, "") for name in metrics),
            score.examples,
            score.chance,
        ]
        for score in scores
    ]
    columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
    return aligned(list(zip(*columns, strict=True)), left=2)
