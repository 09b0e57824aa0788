"""Metrics, numbers and times as a person reads them; texts that are safe in Markdown and in spreadsheets."""

import math
import re
from collections.abc import Iterable, Sequence

_SHARES = (
    "acc", "acc1", "acc5", "agreement", "balanced_acc", "f1", "knn_acc", "label_acc", "linear_acc", "map", "mcc",
    "miou", "nn_top1", "score",
)  # fmt: skip
_WORDS = {
    "acc": "accuracy",
    "bpb": "bits per byte",
    "acc1": "accuracy",
    "nn_top1": "nearest neighbors as the ancestor",
    "acc5": "top-5 accuracy",
    "auroc": "AUROC",
    "balanced_acc": "balanced accuracy",
    "ece": "calibration error",
    "knn_acc": "accuracy of nearest neighbors",
    "label_acc": "accuracy of labels",
    "linear_acc": "accuracy of a linear classifier",
    "map": "mean average precision",
    "mcc": "Matthews correlation",
    "miou": "mean IoU",
    "score": "mean score",
}
_LOWER_IS_BETTER = ("loss", "time", "error", "ece", "perplexity", "bpb", "params", "flops")
_MANY = 1000
"""From this number of examples on, a share has two decimals."""


def is_share(metric: str) -> bool:
    """Whether a metric is a share, which is shown in percent."""
    return metric in _SHARES


def lower_is_better(metric: str) -> bool:
    """Whether smaller values are better, by the end of the name (``train_loss``, ``top5_error``) or ``val/loss_…``."""
    return metric.endswith(_LOWER_IS_BETTER) or metric.rpartition("/")[2].startswith("loss")


def in_words(metric: str) -> str:
    """The metric for readers who do not know its short name: ``accuracy``, ``loss``."""
    return _WORDS.get(metric, metric)


def tag_in_words(tag: str) -> str:
    """The tag for readers who do not know the short name: ``val accuracy`` for ``val/acc``."""
    *prefixes, metric = tag.split("/")
    return " ".join([*prefixes, in_words(metric)])


def measured(value: float, metric: str, examples: int = 0) -> str:
    """A value of a metric: shares in percent, others in four digits.

    Args:
        value: The value.
        metric: Name of the metric, perhaps with a split: ``acc``, ``val/acc``, ``loss``.
        examples: Number of examples; from many examples, a share has two decimals instead of one.
    """
    if is_share(metric.rsplit("/", 1)[-1]):
        return f"{100 * value:.{2 if examples >= _MANY else 1}f} %"
    return digits(value)


def clipped(name: str, most: int = 30) -> str:
    """A name with a limited number of characters, in one line."""
    name = " ".join(name.split())
    return name if len(name) <= most else f"{name[: most - 1]}…"


def some(names: Sequence[str], most: int = 4) -> str:
    """At most so many names in a line, with dots where there are more."""
    return ", ".join([*names[:most], *(["..."] if len(names) > most else [])]) or "none"


def digits(value: float) -> str:
    """A number in four digits: ``1.873``, ``0.05210``, ``12.40``."""
    return f"{value:#.4g}".rstrip(".") if abs(value) < 10_000 else f"{value:.4g}"


def lasting(seconds: float) -> str:
    """A time in one unit or two: ``2.4 s``, ``45 s``, ``3 min 20 s``, ``2 h 05 min``, ``4 d 03 h``."""
    if not math.isfinite(seconds):
        return "unknown"
    whole = max(0, round(seconds))
    if whole < 10:
        return f"{max(0.0, seconds):.1f} s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = whole // 60
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = minutes // 60
    return f"{hours // 24} d {hours % 24:02d} h"


def aligned(rows: Sequence[Sequence[str]], left: int) -> list[str]:
    """Lines of a table whose columns have equal widths.

    Args:
        rows: The cells of each line, as many in all lines.
        left: Number of columns that are aligned at the left; the others are numbers.
    """
    columns = []
    for number, cells in enumerate(zip(*rows, strict=True)):
        width = max(map(len, cells))
        columns.append([cell.ljust(width) if number < left else cell.rjust(width) for cell in cells])
    return ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]


def escape_markdown(text: str) -> str:
    """Escape a text for Markdown."""
    return re.sub(r"([\\|*<>`\[\]]|&(?=#?\w+;))", r"\\\1", text.replace("\n", " "))


_NUMBER = r"[+-]?[\d.]+(?:[eE][+-]?\d+)?$"


def in_cells(row: Iterable[object]) -> list[object]:
    """A line of a CSV file, in which no text begins like a formula: spreadsheets would compute it. Numbers stay."""
    formula = rf"(?!{_NUMBER})'*[=+\-@]"
    return [f"'{cell}" if isinstance(cell, str) and re.match(formula, cell) else cell for cell in row]


def from_cell(text: str) -> str:
    """The text of a cell that :func:`in_cells` wrote."""
    return text[1:] if re.match(r"'+[=+\-@]", text) else text
