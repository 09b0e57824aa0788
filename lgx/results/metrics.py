"""How metrics are shown: in percent or as they are, and which direction is better."""

from lgx.core.readable import in_words as in_words
from lgx.core.readable import is_share as is_share

_LOWER_IS_BETTER = ("loss", "time", "error", "ece", "perplexity", "params", "flops")


def scale_of(metric: str) -> float:
    """Factor from a measured value to the value as shown."""
    return 100.0 if is_share(metric) else 1.0


def heading(metric: str) -> str:
    """The metric with its unit: ``acc (%)``, ``loss``."""
    return f"{metric} (%)" if is_share(metric) else metric


def with_unit(value: float, metric: str) -> str:
    """A value that :func:`scale_of` has scaled, with its unit: ``45.20 %``."""
    return f"{number(value, metric)} %" if is_share(metric) else number(value, metric)


def lower_is_better(metric: str) -> bool:
    """Whether the smaller of two values is the better one. The end counts: ``train_loss``, ``top5_error``."""
    return metric.endswith(_LOWER_IS_BETTER)


def number(value: float, metric: str) -> str:
    """A value that :func:`scale_of` has scaled, in words: two decimals for percent, four for others."""
    return f"{value:.2f}" if is_share(metric) else f"{value:.4f}"
