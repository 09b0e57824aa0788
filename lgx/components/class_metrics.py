"""Metrics of single classes in a test: balanced accuracy, precision, recall, F1, AUROC, calibration, confusions.

The metrics of GLUE tasks other than accuracy follow, as scikit-learn defines them.
"""

from dataclasses import dataclass
from math import nan, pi

import torch
from torch import Tensor
from torchmetrics import MeanMetric, Metric
from torchmetrics.classification import (
    BinaryAUROC,
    MulticlassCalibrationError,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
)
from torchmetrics.utilities import dim_zero_cat

from lgx.core.predictions import predicted_classes, top_classes
from lgx.core.task import BALANCED, Task

AUROC, CALIBRATION, TOP5 = "auroc", "ece", "acc5"
COUNTS, CONFUSION = NO_NUMBERS = "counts", "confusion"
"""The last two are tables, which are not logged."""
_MANY, _LARGEST = 20, 1000
"""Above the first number of classes there is a top-5 accuracy; above the second no confusion matrix."""


@dataclass(frozen=True)
class ClassScores:
    """Scores of one class, NaN if undefined, e.g. the precision of a class that is never predicted.

    Attributes:
        precision: Share of correct images among the images predicted as the class.
        recall: Share of the class's images that are predicted as the class.
        f1: Harmonic mean of both, 0 if nothing is correct.
        examples: Images of the class.
    """

    precision: float
    recall: float
    f1: float
    examples: int


class ClassCounts(Metric):
    """Correct predictions, predictions and examples of each class, (K, 3).

    torchmetrics makes a table of K x K in every step, which takes seconds for 20,000 classes.
    """

    counts: Tensor
    full_state_update = False

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.add_state("counts", torch.zeros(num_classes, 3, dtype=torch.long), dist_reduce_fx="sum")

    def update(self, logits: Tensor, targets: Tensor) -> None:
        """Count a batch: logits (B, K) and class indices (B,)."""
        predicted = predicted_classes(logits)
        classes = len(self.counts)
        parts = (targets[predicted == targets], predicted, targets)
        self.counts += torch.stack([torch.bincount(part, minlength=classes) for part in parts], dim=1)

    def compute(self) -> Tensor:
        """The counts."""
        return self.counts


class TopAccuracy(MeanMetric):
    """Share of the examples whose class is among the network's five most probable classes."""

    def update(self, logits: Tensor, targets: Tensor) -> None:  # type: ignore[override]
        """Count a batch: logits (B, K) and class indices (B,)."""
        super().update((top_classes(logits, 5) == targets[:, None]).any(dim=1).float())


def to_unit_interval(scores: Tensor) -> Tensor:
    """Scores of any shape as float64 between 0 and 1, in the same order; a sigmoid would round large ones to 1."""
    return 0.5 + scores.double().atan() / pi


class TwoClassAUROC(BinaryAUROC):
    """Area under the ROC curve of two classes: how often examples of class 1 rank above examples of class 0.

    It is exact, with 16 bytes for each example of a test, and NaN if the test has examples of one class only.
    """

    def update(self, logits: Tensor, targets: Tensor) -> None:
        """Add a batch: logits (B, 2) and class indices (B,)."""
        super().update(to_unit_interval(logits[:, 1].double() - logits[:, 0].double()), targets)

    def compute(self) -> Tensor:  # type: ignore[override]
        """The area, a scalar."""
        targets: Tensor = dim_zero_cat(self.target)
        if targets.min() == targets.max():
            return targets.new_tensor(nan, dtype=torch.float32)
        area: Tensor = super().compute()
        return area


class BalancedAccuracy(ClassCounts):
    """Mean recall over the classes that have examples, as in scikit-learn; NaN without examples.

    Attributes:
        error: Standard error of the last mean p of K recalls that was computed: √(p (1 - p) Σ 1/n) / K for n examples
            of a class. All classes share one variance: the variance estimated from a single image would be 0.
    """

    error = 0.0

    def compute(self) -> Tensor:
        """The mean, a scalar."""
        right, _, examples = self.counts[self.counts[:, 2] > 0].unbind(dim=1)
        mean = (right / examples).mean()
        self.error = float((mean * (1 - mean) * (1 / examples).sum()).sqrt() / len(examples)) if len(examples) else 0.0
        return mean


def scores_of_classes(counts: Tensor) -> list[ClassScores]:
    """The scores of each class, in index order.

    Args:
        counts: (K, 3) of :class:`ClassCounts`.
    """
    scores = []
    for right, predicted, examples in counts.tolist():
        precision = right / predicted if predicted else nan
        recall = right / examples if examples else nan
        total = predicted + examples
        scores.append(ClassScores(precision, recall, 2 * right / total if total else nan, examples))
    return scores


def class_metric_names(task: Task) -> list[str]:
    """Names of the metrics that a test adds to a classification; otherwise none."""
    if not task.is_labeled or task.kind not in ("classification", "text") or task.num_classes < 2:
        return []
    sizes = [AUROC] if task.num_classes == 2 else [TOP5] if task.num_classes > _MANY else []
    return [BALANCED, *sizes, CALIBRATION]


def class_metrics(task: Task) -> dict[str, Metric]:
    """The metrics of :func:`class_metric_names`, and the tables behind them.

    Calibration is the expected calibration error in 15 bins of equal width (Guo et al., 2017).
    """
    names = class_metric_names(task)
    classes = task.num_classes
    if not names:
        return {}
    metrics: dict[str, Metric] = {
        BALANCED: BalancedAccuracy(classes),
        CALIBRATION: MulticlassCalibrationError(classes, n_bins=15, norm="l1"),
        COUNTS: ClassCounts(classes),
    }
    if AUROC in names:
        metrics[AUROC] = TwoClassAUROC()
    if TOP5 in names:
        metrics[TOP5] = TopAccuracy()
    if classes <= _LARGEST:
        metrics[CONFUSION] = MulticlassConfusionMatrix(classes)
    return metrics


def interval(share: float, examples: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of examples."""
    from scipy.stats import binomtest  # the import takes a tenth of a run's start

    bounds = binomtest(round(share * examples), examples).proportion_ci(method="wilson")
    return float(bounds.low), float(bounds.high)


def confusions(matrix: Tensor) -> list[tuple[int, int, int]]:
    """The three most frequent mistakes: (class, predicted class, number), in order of classes if equal.

    Args:
        matrix: (K, K), rows are the true classes.
    """
    wrong = matrix.clone().fill_diagonal_(0).flatten()
    order = torch.argsort(wrong, descending=True, stable=True)[:3].tolist()
    return [(*divmod(index, len(matrix)), int(wrong[index])) for index in order if wrong[index]]


class Matthews(MulticlassConfusionMatrix):
    """Matthews correlation coefficient, in [-1, 1]; for K > 2 classes the generalization by Gorodkin (2004).

    It is 0 if all predictions or all targets belong to one class, as in scikit-learn. Torchmetrics' own metric depends
    on the counts in that case (0.04 on 20 examples) and is 1 if predictions and targets belong to the same class.
    """

    def compute(self) -> Tensor:
        """Compute the coefficient over all batches and ranks.

        Returns:
            Scalar, float32.
        """
        counts = super().compute().double()
        total, targets, predicted = counts.sum(), counts.sum(dim=1), counts.sum(dim=0)
        covariance = counts.trace() * total - targets @ predicted
        spread = (total**2 - predicted @ predicted) * (total**2 - targets @ targets)
        return torch.where(spread > 0, covariance / spread.clamp(min=1).sqrt(), 0.0).float()


class PositiveF1(MulticlassF1Score):
    """F1 of the positive class, class 1 of two; 0 if class 1 is in neither the predictions nor the targets.

    Args:
        num_classes: K.
    """

    def __init__(self, num_classes: int) -> None:
        super().__init__(num_classes, average="none")

    def compute(self) -> Tensor:
        """Compute the score over all batches and ranks.

        Returns:
            Scalar in [0, 1].
        """
        scores: Tensor = super().compute()
        return scores[1]
