"""How metrics are shown: in percent or as they are, and which direction is better."""

from collections.abc import Mapping
from dataclasses import dataclass, field

_SHARES = ("acc", "acc1", "acc5", "agreement", "f1", "knn_acc", "linear_acc", "map", "mcc", "miou")
_WORDS = {
    "acc": "accuracy",
    "acc1": "accuracy",
    "acc5": "top-5 accuracy",
    "knn_acc": "accuracy of nearest neighbors",
    "linear_acc": "accuracy of a linear classifier",
    "map": "mean average precision",
    "mcc": "Matthews correlation",
    "miou": "mean IoU",
}
_LOWER_IS_BETTER = ("loss", "time", "error", "perplexity", "params", "flops")


@dataclass(frozen=True)
class Metrics:
    """On which metric each task is judged.

    Attributes:
        default: The metric of every other task.
        by_task: Metric of some tasks, by their names.
    """

    default: str = "acc"
    by_task: Mapping[str, str] = field(default_factory=dict)

    def of(self, task: str) -> str:
        """The metric of a task."""
        return self.by_task.get(task, self.default)


def is_share(metric: str) -> bool:
    """Whether a metric is a share, which is shown in percent."""
    return metric in _SHARES


def scale_of(metric: str) -> float:
    """Factor from a measured value to the value as shown."""
    return 100.0 if is_share(metric) else 1.0


def heading(metric: str) -> str:
    """The metric with its unit: ``acc (%)``, ``loss``."""
    return f"{metric} (%)" if is_share(metric) else metric


def in_words(metric: str) -> str:
    """The metric for readers who do not know its short name: ``accuracy``, ``loss``."""
    return _WORDS.get(metric, metric)


def with_unit(value: float, metric: str) -> str:
    """A value as shown, with its unit: ``45.20 %``."""
    return f"{number(value, metric)} %" if is_share(metric) else number(value, metric)


def lower_is_better(metric: str) -> bool:
    """Whether the smaller of two values is the better one."""
    return metric.endswith(_LOWER_IS_BETTER)


def number(value: float, metric: str) -> str:
    """A value as shown: two decimals for percent, four for others."""
    return f"{value:.2f}" if is_share(metric) else f"{value:.4f}"
