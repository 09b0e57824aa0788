"""Figures that a run leaves in its folder and in its loggers.

- ``DrawFigures``: those of the method while it trains.
- ``Gallery``: pictures of a test, the most confident mistakes and random predictions.
- ``ClassReport``: the scores of single classes in a test, also as a table and in words.

The last two do this for each network of a test; its name ends the names of its files where there are several.
"""

import csv
import random
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger, MLFlowLogger, TensorBoardLogger
from torch import Tensor

from lgx.components.class_metrics import CONFUSION, COUNTS, ClassScores, confusions, scores_of_classes
from lgx.components.metrics import was_measured
from lgx.core.batch import Batch
from lgx.core.predictions import predicted_classes
from lgx.core.readable import clipped, in_cells, measured
from lgx.core.rows import CLASSES, Evaluation
from lgx.core.task import Task
from lgx.host.files import atomic_path
from lgx.methods.base import Method
from lgx.training.run_folder import run_folder

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class DrawFigures(Callback):
    """After every validation, draw the method's figures in the loggers, and as ``<name>.svg`` in the run's folder."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw the figures, on the first process."""
        folder = run_folder(trainer)
        if trainer.sanity_checking or folder is None or not isinstance(pl_module, Method):
            return
        draw(trainer, folder, pl_module.figures())


def draw(trainer: Trainer, folder: Path, figures: "Mapping[str, Figure]") -> None:
    """Draw figures in the loggers, and in the run's folder; on the first process."""
    if not figures or not trainer.is_global_zero:
        return
    from lgx.components.figures import write_svg

    for name, figure in figures.items():
        write_svg(figure, folder / f"{name}.svg", name)
        for logger in trainer.loggers:
            show_figure(logger, name, figure, trainer.global_step)


def show_figure(logger: Logger, name: str, figure: "Figure", step: int) -> None:
    """Log a figure if the logger accepts figures."""
    if isinstance(logger, TensorBoardLogger):
        logger.experiment.add_figure(name, figure, step, close=False)
    elif isinstance(logger, MLFlowLogger):
        logger.experiment.log_figure(logger.run_id, figure, f"{name}/step_{step:08d}.png")
    elif callable(log_image := getattr(logger, "log_image", None)):  # WandbLogger, and loggers with its interface
        log_image(name, [figure], step=step)


GALLERY, FIGURE = "gallery", "confusion"
_SHOWN, _COLUMNS = 12, 6
"""Number of pictures of each kind, and per row."""


class _Seen(NamedTuple):
    """A test image with its prediction.

    Attributes:
        rank: Confidence or a random number; images with the largest ranks are kept.
        place: Number of images that this process tested before this image.
        confidence: Probability of the predicted class.
        label: The true class.
        predicted: The predicted class.
        pixels: (C, H, W), normalized.
    """

    rank: float
    place: int
    confidence: float
    label: int
    predicted: int
    pixels: Tensor


class _Pictures:
    """Pictures of the test of one network.

    Attributes:
        mistakes: The most confident mistakes.
        others: Random images, the same for all networks.
    """

    def __init__(self) -> None:
        self.mistakes: list[_Seen] = []
        self.others: list[_Seen] = []
        self._count = 0
        self._random = random.Random(0)

    def add(self, logits: Tensor, batch: Batch) -> None:
        """Keep the images of a batch that will be drawn."""
        predicted = predicted_classes(logits)
        confidence = logits.softmax(dim=1).gather(1, predicted[:, None])[:, 0]
        numbers = zip(confidence.tolist(), batch.targets.tolist(), predicted.tolist(), batch.inputs, strict=True)
        for sure, label, guess, pixels in numbers:
            if label != guess:
                _keep(self.mistakes, _Seen(sure, self._count, sure, label, guess, pixels))
            _keep(self.others, _Seen(self._random.random(), self._count, sure, label, guess, pixels))
            self._count += 1


class Gallery(Callback):
    """Draw the most confident mistakes of each trained classifier, and random test images: ``gallery.svg``.

    With several processes, the first process draws its share of the images.

    Attributes:
        seen: Pictures of each network, by its name.
    """

    def __init__(self) -> None:
        self.seen: dict[str, _Pictures] = {}
        self._networks: dict[str, Evaluation] = {}

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Forget the images of an earlier test."""
        self.seen = {}
        self._networks = pl_module.classifiers() if isinstance(pl_module, Method) else {}

    def on_test_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int, *more: int
    ) -> None:
        """Keep the images of a batch that will be drawn."""
        if not trainer.is_global_zero or not isinstance(pl_module, Method):
            return
        tested = pl_module.tested
        pl_module.tested = {}
        for name, network in self._networks.items():
            logits = tested.get(network.suffix)
            if logits is not None and (logits.ndim, batch.targets.ndim, batch.inputs.ndim) == (2, 1, 4):
                self.seen.setdefault(name, _Pictures()).add(logits, batch)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw."""
        folder = run_folder(trainer)
        if not self.seen or folder is None or not isinstance(pl_module, Method) or not pl_module.epochs_trained:
            return
        module = pl_module.data_module()
        files = module.predict_files if len(pl_module.tasks) == 1 else ()
        names = [files[index] for index in module.predict_indices] if files else []
        for name, pictures in self.seen.items():
            network = self._networks[name]
            figure = gallery_figure(pictures.mistakes, pictures.others, pl_module.tasks[network.task], names)
            draw(trainer, folder, {network.stem(GALLERY): figure})


def _keep(kept: list[_Seen], seen: _Seen) -> None:
    """Keep an image if its rank is among the largest."""
    if len(kept) < _SHOWN or seen.rank > kept[-1].rank:
        kept.append(seen._replace(pixels=seen.pixels.detach().float().cpu()))
        kept.sort(key=lambda one: -one.rank)
        del kept[_SHOWN:]


def gallery_figure(mistakes: list[_Seen], others: list[_Seen], task: Task, files: Sequence[str] = ()) -> "Figure":
    """Draw rows of the most confident mistakes, then of random predictions, with true class, prediction and file.

    Args:
        mistakes: The most confident first.
        others: Random images.
        task: Gives normalization, which is undone, and class names.
        files: File of each image, in the order of the test; empty if unknown.
    """
    from matplotlib.figure import Figure

    from lgx.components.figures import plain

    names = [plain(clipped(name, 16)) for name in task.class_names or map(str, range(task.num_classes))]
    groups = [(title, seen) for title, seen in (("most confident mistakes", mistakes), ("random", others)) if seen]
    rows = [-(-len(seen) // _COLUMNS) for _, seen in groups]
    width, height = 1.5 * _COLUMNS, 1.8 * sum(rows) + 0.3 * len(rows)  # inches
    figure = Figure(figsize=(width, height))
    axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))  # one for all: each takes 40 ms to draw
    axes.set_axis_off()
    top = 0.3
    for (title, seen), count in zip(groups, rows, strict=True):
        axes.text(0.1, top - 0.1, title, fontsize=8)
        for place, one in enumerate(seen):
            x = 1.5 * (place % _COLUMNS) + 0.75
            y = top + 1.8 * (place // _COLUMNS)
            words = f"{names[one.label]}\nas {names[one.predicted]}, {one.confidence:.0%}"
            axes.text(x, y, words, fontsize=6, horizontalalignment="center", verticalalignment="top")
            picture = _picture(one.pixels, task)
            high, wide = (1.35 * side / max(picture.shape[:2]) for side in picture.shape[:2])
            extent = (x - wide / 2, x + wide / 2, y + 0.3 + high, y + 0.3)
            axes.imshow(picture, cmap="gray", extent=extent, aspect="auto")
            if one.place < len(files):
                name = plain(clipped(PurePath(files[one.place]).name, 26))
                axes.text(x, y + 0.32 + high, name, fontsize=5, horizontalalignment="center", verticalalignment="top")
        top += 1.8 * count + 0.3
    return figure


def _picture(pixels: Tensor, task: Task) -> Any:
    """(C, H, W) normalized -> (H, W, 3) or (H, W), in [0, 1]."""
    mean, std = (torch.tensor(values)[:, None, None] for values in (task.mean, task.std))
    shown = (pixels * std + mean).clamp(0, 1)
    return shown[0].numpy() if len(shown) != 3 else shown.permute(1, 2, 0).numpy()


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
                draw(trainer, folder, {network.stem(FIGURE): confusion_figure(self._matrices[name], classes)})

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
