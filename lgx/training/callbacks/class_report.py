"""What a test found of single classes: a table, the most frequent mistakes, a picture of the confusions."""

import csv
from typing import TYPE_CHECKING, cast

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from lgx.components.class_metrics import CONFUSION, COUNTS, ClassScores, confusions, scores_of_classes
from lgx.core.csv_cells import escape_cell
from lgx.core.readable import clipped, measured
from lgx.core.rows import CLASS_TABLE
from lgx.core.task import Task
from lgx.host.files import atomic_path
from lgx.methods.base import Method
from lgx.training.callbacks.figures import draw
from lgx.training.run_folder import run_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURE = "confusion"
_DRAWN = 100
"""Most classes of the picture."""


class ClassReport(Callback):
    """Write precision, recall and F1 of each class to ``test_classes.csv``; draw the confusions of a trained network.

    Attributes:
        scores: Of each class in the last test of one network; empty where there are several.
    """

    def __init__(self) -> None:
        self.scores: list[ClassScores] = []
        self._matrix: Tensor | None = None

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Read the tables, on all processes: they are summed over them."""
        self.scores, self._matrix = [], None
        if not isinstance(pl_module, Method) or "test_metrics" not in pl_module.eval_metrics or pl_module.probe:
            return
        metrics = pl_module.metrics_of("test")
        if COUNTS in metrics and metrics[COUNTS].update_called:
            self.scores = scores_of_classes(cast(Tensor, metrics[COUNTS].compute()).cpu())
            self._matrix = metrics[CONFUSION].compute().cpu() if CONFUSION in metrics else None

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Write and draw, on the first process."""
        folder = run_folder(trainer)
        if not self.scores or folder is None or not trainer.is_global_zero or not isinstance(pl_module, Method):
            return
        task = cast(Task, pl_module.task)
        names = task.class_names or tuple(map(str, range(len(self.scores))))
        if not pl_module.epochs_trained:
            return
        with atomic_path(folder / CLASS_TABLE) as path, path.open("w", encoding="utf-8", newline="") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["class", "precision", "recall", "f1", "examples"])
            for name, own in zip(names, self.scores, strict=True):
                table.writerow([escape_cell(name), own.precision, own.recall, own.f1, own.examples])
        if self._matrix is not None and len(names) <= _DRAWN:
            draw(trainer, folder, {FIGURE: confusion_figure(self._matrix, names)})

    @property
    def majority(self) -> tuple[int, float] | None:
        """The largest class and its share of the examples: what a network reaches that always names it."""
        counts = [own.examples for own in self.scores]
        return (counts.index(max(counts)), max(counts) / sum(counts)) if sum(counts) else None

    def lines(self, task: Task) -> list[str]:
        """The classes with the least recall, and the most frequent mistakes, in words."""
        names = [clipped(name) for name in task.class_names] or list(map(str, range(len(self.scores))))
        there = [number for number, own in enumerate(self.scores) if own.examples]
        worst = sorted(there, key=lambda number: self.scores[number].recall)[:3]
        shown = (f"{names[i]} {measured(self.scores[i].recall, 'acc')} of {self.scores[i].examples:,}" for i in worst)
        lines = [f"least recall: {', '.join(shown)}"]
        if self._matrix is not None and (wrong := confusions(self._matrix)):
            taken = (f"{names[true]} for {names[guess]} {count:,}x" for true, guess, count in wrong)
            lines.append(f"taken: {', '.join(taken)}")
        if absent := len(self.scores) - len(there):
            lines.append(f"without examples: {absent} of {len(names)} classes, which balanced accuracy leaves out")
        return lines


def confusion_figure(matrix: Tensor, names: tuple[str, ...]) -> "Figure":
    """Share of each true class (rows) that is predicted as each class (columns).

    Args:
        matrix: (K, K) numbers of examples.
        names: Of the classes.
    """
    from lgx.components.figures import make_panels, plain

    shares = matrix / matrix.sum(dim=1, keepdim=True).clamp(min=1)
    side = max(3.3, 0.22 * len(names))
    figure, (axes,) = make_panels(1, legend=1.6, size=(side, side))
    image = axes.imshow(shares.to(torch.float64).numpy(), cmap="Blues", vmin=0, vmax=1)
    words = [plain(clipped(name, 20)) for name in names]
    axes.set_xticks(range(len(names)), words, rotation=90, fontsize=7)
    axes.set_yticks(range(len(names)), words, fontsize=7)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true class")
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, label="share of the true class", shrink=0.8)
    return figure
