"""Figures that a run leaves in its folder and in TensorBoard.

- ``DrawFigures``: those of the method while it trains.
- ``ClassReport``: the scores of single classes in a test, also as a table and in words.

The last does this for each network of a test; its name ends the names of its files where there are several.
"""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import TensorBoardLogger
from torch import Tensor

from lgx.components.class_metrics import CONFUSION, COUNTS, ClassScores, confusions, scores_of_classes
from lgx.components.metrics import was_measured
from lgx.core.readable import clipped, in_cells, measured
from lgx.core.rows import CLASSES
from lgx.core.task import Task
from lgx.host.files import atomic_path
from lgx.methods.base import Method
from lgx.training.run_folder import run_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class DrawFigures(Callback):
    """After every validation, draw the method's figures in TensorBoard, and as ``<name>.svg`` in the run's folder."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw the figures, on the first process."""
        folder = run_folder(trainer)
        if trainer.sanity_checking or folder is None or not isinstance(pl_module, Method):
            return
        draw(trainer, folder, pl_module.figures())


def draw(trainer: Trainer, folder: Path, figures: "Mapping[str, Figure]") -> None:
    """Draw figures in TensorBoard, and in the run's folder; on the first process."""
    if not figures or not trainer.is_global_zero:
        return
    from lgx.components.figures import write_svg

    for name, figure in figures.items():
        write_svg(figure, folder / f"{name}.svg", name)
        for logger in trainer.loggers:
            if isinstance(logger, TensorBoardLogger):
                logger.experiment.add_figure(name, figure, trainer.global_step, close=False)


_DRAWN, _NUMBERED = 100, 20
"""Largest number of classes in the picture, and in one with numbers."""


class ClassReport(Callback):
    """Write precision, recall and F1 of each class to ``test_classes.csv``; draw the confusions of trained networks.

    Attributes:
        scores: Scores of each class in the last test, by the name of the network.
    """

    def __init__(self) -> None:
        self.scores: dict[str, list[ClassScores]] = {}
        self._matrices: dict[str, Tensor] = {}

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Read the tables on all processes, because the tables are summed over processes."""
        self.scores = {}
        self._matrices = {}
        if not isinstance(pl_module, Method) or pl_module.probe:
            return
        for name, network in pl_module.classifiers().items():
            metrics = pl_module.metrics_of("test", network.suffix)
            if COUNTS in metrics and was_measured(metrics):
                self.scores[name] = scores_of_classes(cast(Tensor, metrics[COUNTS].compute()).cpu())
                if CONFUSION in metrics:
                    self._matrices[name] = metrics[CONFUSION].compute().cpu()

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write the tables and draw, on the first process."""
        folder = run_folder(trainer)
        if not self.scores or folder is None or not trainer.is_global_zero or not isinstance(pl_module, Method):
            return
        if not pl_module.epochs_trained:
            return
        for name, scores in self.scores.items():
            network = pl_module.classifiers()[name]
            classes = pl_module.tasks[network.task].class_names or tuple(map(str, range(len(scores))))
            file_name = folder / f"{network.stem(CLASSES)}.csv"
            with atomic_path(file_name) as path, path.open("w", encoding="utf-8", newline="") as file:
                table = csv.writer(file, lineterminator="\n")
                table.writerow(["class", "precision", "recall", "f1", "examples"])
                for label, score in zip(classes, scores, strict=True):
                    table.writerow(in_cells([label, score.precision, score.recall, score.f1, score.examples]))
            if name in self._matrices and len(classes) <= _DRAWN:
                draw(trainer, folder, {network.stem("confusion"): confusion_figure(self._matrices[name], classes)})

    @property
    def majority(self) -> tuple[int, float] | None:
        """The largest class and its share of the examples: the accuracy of always predicting it; for one network."""
        counts = [score.examples for score in self.scores.get("", [])]
        return (counts.index(max(counts)), max(counts) / sum(counts)) if sum(counts) else None

    def lines(self, task: Task, network: str = "") -> list[str]:
        """The classes with the lowest recall, and the most frequent mistakes, in words; none without a test."""
        scores = self.scores.get(network)
        if scores is None:
            return []
        names = [clipped(name) for name in task.class_names] or list(map(str, range(len(scores))))
        tested = [number for number, score in enumerate(scores) if score.examples]
        worst = sorted(tested, key=lambda number: scores[number].recall)[:3]
        shown = (f"{names[i]} {measured(scores[i].recall, 'acc')} of {scores[i].examples:,}" for i in worst)
        lines = [f"lowest recall: {', '.join(shown)}"]
        if network in self._matrices and (wrong := confusions(self._matrices[network])):
            mistakes = (f"{names[true]} as {names[guess]} {count:,}x" for true, guess, count in wrong)
            lines.append(f"mistakes: {', '.join(mistakes)}")
        absent = len(scores) - len(tested)
        if absent:
            lines.append(f"without examples: {absent} of {len(names)} classes; balanced accuracy leaves them out")
        return lines


def confusion_figure(matrix: Tensor, names: tuple[str, ...]) -> "Figure":
    """Numbers of examples of each true class (rows) that are predicted as each class; printed for few classes.

    Args:
        matrix: (K, K) numbers of examples.
        names: Names of the classes.
    """
    from matplotlib.figure import Figure
    from sklearn.metrics import ConfusionMatrixDisplay

    from lgx.components.figures import plain

    has_numbers = len(names) <= _NUMBERED
    side = max(3.3, 0.3 * len(names))
    figure = Figure(figsize=(side + 1.6, side), layout="constrained")
    shown = ConfusionMatrixDisplay(matrix.numpy(), display_labels=[plain(clipped(name, 20)) for name in names])
    shown.plot(
        ax=figure.subplots(), cmap="Blues", include_values=has_numbers, values_format="d", colorbar=not has_numbers,
        xticks_rotation="vertical", text_kw={"fontsize": 6},
    )  # fmt: skip
    return figure
