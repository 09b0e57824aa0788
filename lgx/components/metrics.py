"""What is measured of a task: its metrics by name, all of them torchmetrics, with the loss and the number of examples.

A task's metrics are its main one, ``task.metric``, and ``acc``:

- ``acc``: share of the examples whose class is right; for segmentation the share of the labeled pixels.
- ``miou``: mean intersection over union. The pixels of the whole split are counted in one confusion matrix, which
  gives the IoU of each class; their mean is over the classes that occur in a mask or a prediction. That is what papers
  on segmentation report; a mean over images of their own mIoU would be another number. Pixels without a label do not
  count.
- ``f1``: F1 of class 1 of two, the positive one.
- ``mcc``: Matthews correlation coefficient, in [-1, 1].
"""

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor
from torchmetrics import MeanMetric, Metric, MetricCollection, SumMetric
from torchmetrics.classification import MulticlassAccuracy, MulticlassJaccardIndex

from lgx.components.text_metrics import Matthews, PositiveF1
from lgx.core.batch import IGNORE, Task
from lgx.errors import UserError

METRICS: dict[str, Callable[[int, int | None], Metric]] = {
    "acc": lambda classes, ignored: MulticlassAccuracy(classes, average="micro", ignore_index=ignored),
    "miou": lambda classes, ignored: MulticlassJaccardIndex(classes, average="macro", ignore_index=ignored),
    "f1": lambda classes, ignored: PositiveF1(classes),
    "mcc": lambda classes, ignored: Matthews(classes),
}
"""Name -> what makes a metric of K classes that leaves out one target, if any. Larger is better."""


def metric_names(task: Task) -> list[str]:
    """What is reported of a task: its main metric first, ``loss`` last."""
    return list(dict.fromkeys((task.metric, "acc", "loss")))


def metrics_for(task: Task) -> MetricCollection:
    """The metrics of a task, with ``loss`` and the number of examples ``n``; :func:`update_metrics` feeds them.

    Raises:
        UserError: If the task's main metric is unknown.
    """
    if task.metric not in METRICS:
        raise UserError(f"task {task.name}: metric {task.metric!r} is unknown; known are {', '.join(METRICS)}")
    ignored = IGNORE if task.kind == "segmentation" else None
    wanted = [name for name in metric_names(task) if name != "loss"]
    metrics: dict[str, Metric] = {name: METRICS[name](task.num_classes, ignored) for name in wanted}
    return MetricCollection({**metrics, "loss": MeanMetric(), "n": SumMetric()}, compute_groups=False)


def update_metrics(metrics: MetricCollection, logits: Tensor, targets: Tensor) -> dict[str, Metric]:
    """Take a batch into account.

    Args:
        metrics: What :func:`metrics_for` made.
        logits: (B, K), or (B, K, H, W).
        targets: Class indices (B,), or of pixels (B, H, W).

    Returns:
        The metrics by name.
    """
    found: dict[str, Metric] = dict(metrics.items(keep_base=True))
    for name, metric in found.items():
        if name == "loss":
            metric.update(label_losses(logits, targets))
        elif name == "n":
            metric.update(len(targets))
        else:
            metric.update(logits, targets)
    return found


def label_losses(logits: Tensor, targets: Tensor) -> Tensor:
    """Cross-entropy of each example (B,), or of each labeled pixel (N,)."""
    losses = F.cross_entropy(logits, targets, reduction="none", ignore_index=IGNORE if targets.ndim == 3 else -100)
    return losses[targets != IGNORE] if targets.ndim == 3 else losses


def label_loss(logits: Tensor, targets: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """Mean cross-entropy with labels.

    Args:
        logits: (B, K), or (B, K, H, W).
        targets: Class indices (B,), shares of the classes (B, K), or class indices of pixels (B, H, W), of which those
            without a label do not count.
        label_smoothing: ε.
    """
    if targets.ndim != 3:
        return F.cross_entropy(logits, targets, label_smoothing=label_smoothing)
    total = F.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum", label_smoothing=label_smoothing)
    return total / (targets != IGNORE).sum().clamp(min=1)  # a batch may have no label at all: 0, not 0 / 0
