"""The metrics of a task, by name. All are torchmetrics; the loss and the number of examples come with them.

A task reports its main metric, ``task.metric``, and ``acc``:

- ``acc``: share of correctly classified examples; for segmentation, share of correctly classified labeled pixels.
- ``miou``: mean intersection over union. One confusion matrix counts the labeled pixels of the whole split and gives
  the IoU of each class. The mean is over the classes in masks or predictions, as papers on segmentation report it. A
  mean of the mIoU of single images would differ.
- ``f1``: F1 of the positive class, class 1 of two.
- ``mcc``: Matthews correlation coefficient, in [-1, 1].
- ``balanced_acc``: mean recall of the classes in the split; the main metric if training balances the classes.
- ``map``: for several labels, the mean over the labels of the average precision, which ranks the examples by the
  probability of the label. Average precision is the area under the steps of precision over recall, as in scikit-learn.
  It is 0 for a label that no example of the split has. ``label_acc``, in place of ``acc``, is the share of correct yes
  or no answers (threshold 0.5) over all known labels; all metrics ignore unknown labels.
- ``perplexity``: for language, e to the mean loss of all tokens of the split. ``bpb``: bits per byte, the split's loss
  in bits per UTF-8 byte of its texts, which does not depend on the tokenizer; only known if the data module counts
  bytes. ``acc`` is then the share of tokens that are predicted correctly.

A task without labels has only ``agreement``, which the method measures: the network's mean agreement with its teacher.
"""

import math
from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor
from torchmetrics import MeanMetric, Metric, MetricCollection, SumMetric
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassJaccardIndex,
    MultilabelAccuracy,
    MultilabelAveragePrecision,
)

from lgx.components.class_metrics import (
    CALIBRATION,
    NO_NUMBERS,
    BalancedAccuracy,
    Matthews,
    PositiveF1,
    class_metric_names,
    class_metrics,
    to_unit_interval,
)
from lgx.components.losses import label_losses, labeled_logits
from lgx.core.predictions import predicted_classes
from lgx.core.task import AGREEMENT, BALANCED, IGNORE_TOKEN, PERPLEXITY, Task, ignored_target
from lgx.errors import UserError

BPB = "bpb"
_OF_LOSSES = ("loss", PERPLEXITY, BPB)
"""Metrics that are updated with the losses of examples, pixels, labels or tokens."""

_BELOW_ONE = 1 - 2**-24
"""Largest float32 below 1. torchmetrics would put probabilities of 1 into a separate bin."""


class Perplexity(MeanMetric):
    """e to the mean loss of all tokens; torchmetrics' own would compute a second softmax."""

    def compute(self) -> Tensor:
        """The perplexity, a scalar."""
        return super().compute().exp()


class BitsPerByte(MeanMetric):
    """The mean loss of all tokens, in bits per byte, for tokens of so many bytes on average."""

    def __init__(self, bytes_per_token: float) -> None:
        super().__init__()
        self.nats_per_bit = math.log(2) * bytes_per_token

    def compute(self) -> Tensor:
        """Bits per byte, a scalar."""
        return super().compute() / self.nats_per_bit


METRICS: dict[str, Callable[[int, int | None], Metric]] = {
    "acc": lambda classes, ignored: MulticlassAccuracy(classes, average="micro", ignore_index=ignored),
    "miou": lambda classes, ignored: MulticlassJaccardIndex(classes, average="macro", ignore_index=ignored),
    "f1": lambda classes, ignored: PositiveF1(classes),
    "mcc": lambda classes, ignored: Matthews(classes),
    BALANCED: lambda classes, ignored: BalancedAccuracy(classes),
}
"""Name -> function that builds the metric, given the number of classes K and the target to ignore (or None).

Larger values are better, except those that :func:`~lgx.core.readable.lower_is_better` names.
"""

LABEL_ACCURACY = "label_acc"
"""Share of right labels of tasks with several labels per example; it must not be averaged with shares of examples."""

_MULTILABEL_METRICS: dict[str, Callable[[int, int | None], Metric]] = {
    LABEL_ACCURACY: lambda labels, ignored: MultilabelAccuracy(labels, average="micro", ignore_index=ignored),
    "map": lambda labels, ignored: MultilabelAveragePrecision(labels, average="macro", ignore_index=ignored),
}
"""The same for several labels per example; these metrics read scores between 0 and 1."""


def metric_names(task: Task, split: str = "val") -> list[str]:
    """Names of the values that are reported for a task: the main metric first, ``loss`` last."""
    if not task.is_labeled:
        return [AGREEMENT, "loss"]
    others = class_metric_names(task) if split == "test" else []
    if task.kind == "language":
        others = [BPB] if _bytes_per_token(task, split) else []
    accuracy = LABEL_ACCURACY if task.kind == "multilabel" else "acc"
    return list(dict.fromkeys((task.metric, *others, accuracy, "loss")))


def _bytes_per_token(task: Task, split: str) -> float:
    return task.bytes_per_token[split == "test"]


def metrics_for(task: Task, split: str = "val") -> MetricCollection:
    """Build the metrics of a task, with ``loss`` and the number of examples ``n``.

    Args:
        task: Decides the metric names, the number of classes, and which targets are ignored.
        split: ``test`` adds the metrics of :mod:`lgx.components.class_metrics`.

    Returns:
        The metrics by name, updated by :func:`update_metrics`. Without labels they are ``agreement``, ``loss`` (means)
        and ``n`` (sum), which the method updates itself.
    """
    # No compute groups: update_metrics updates each metric by itself, so none may share its state with another.
    if not task.is_labeled:
        means: dict[str, Metric] = {name: MeanMetric() for name in metric_names(task)}
        return MetricCollection({**means, "n": SumMetric()}, compute_groups=False)
    builders = _MULTILABEL_METRICS if task.kind == "multilabel" else METRICS
    if task.kind == "language":
        bits = BitsPerByte(_bytes_per_token(task, split))
        builders = {"acc": METRICS["acc"], PERPLEXITY: lambda *_: Perplexity(), BPB: lambda *_: bits}
    if task.metric not in builders:
        raise UserError(f"task {task.name}: metric {task.metric!r} is unknown; known are {', '.join(builders)}")
    ignored = ignored_target(task.kind)
    wanted = [name for name in metric_names(task, split) if name in builders]
    metrics: dict[str, Metric] = {name: builders[name](task.num_classes, ignored) for name in wanted}
    metrics |= class_metrics(task) if split == "test" else {}
    return MetricCollection({**metrics, "loss": MeanMetric(), "n": SumMetric()}, compute_groups=False)


def was_measured(metrics: MetricCollection) -> bool:
    """Whether any process updated the metrics of a task. Call it on all processes: it sums over them."""
    return bool(metrics["n"].compute() > 0)


def update_metrics(metrics: MetricCollection, logits: Tensor, targets: Tensor) -> dict[str, Metric]:
    """Update all metrics with one batch.

    Args:
        metrics: The result of :func:`metrics_for`.
        logits: (B, K), (B, K, H, W) for segmentation, or (B, N, V) for next tokens.
        targets: Class indices (B,), class indices of pixels (B, H, W), several labels (B, K), or next tokens (B, N).

    Returns:
        The metrics by name, without those that are tables.
    """
    examples = len(targets)
    if logits.ndim == 3:  # a token is an example with one class
        logits = labeled_logits(logits, targets)
        targets = targets[targets != IGNORE_TOKEN]
    losses = label_losses(logits, targets)
    predicted = to_unit_interval(logits) if targets.ndim == 2 else logits
    by_name: dict[str, Metric] = dict(metrics.items(keep_base=True))
    for name, metric in by_name.items():
        if name in _OF_LOSSES:
            metric.update(losses)
        elif name == "n":
            metric.update(examples)
        elif name == CALIBRATION:  # torchmetrics treats logits in [0, 1] as probabilities
            metric.update(logits.float().softmax(dim=1).clamp(max=_BELOW_ONE), targets)
        else:
            metric.update(predicted, targets)
    return {name: metric for name, metric in by_name.items() if name not in NO_NUMBERS}


def agreement_with(student: Tensor, teacher: Tensor, temperature: float = 1.0) -> tuple[Tensor, Tensor]:
    """The distance of a student's predictions from the teacher's.

    Args:
        student: Logits p_s, (B, K), or (B, N, V) for next tokens.
        teacher: Logits p_t of the same shape.
        temperature: τ > 0.

    Returns:
        KL divergence ``KL(softmax(p_t / τ) ‖ softmax(p_s / τ))`` of each example, (B,) or (BN,), which is the
        distillation loss without the entropy of the teacher's prediction; and 1 where both predict the same class,
        else 0.
    """
    student = student.flatten(0, -2)
    teacher = teacher.flatten(0, -2)
    log_p = (student / temperature).float().log_softmax(dim=-1)
    wanted = (teacher / temperature).float().log_softmax(dim=-1)
    divergence = F.kl_div(log_p, wanted, log_target=True, reduction="none").sum(dim=1)
    return divergence, (predicted_classes(student) == predicted_classes(teacher)).float()
