"""From logits to classes: the one rule of tests, predictions, exports and comparisons."""

from collections.abc import Iterator, Sequence

from torch import Tensor


def predicted_classes(logits: Tensor) -> Tensor:
    """The class with the largest logit of each example; of equal logits, which 8-bit networks give, the first class.

    Args:
        logits: (B, K), not probabilities: a softmax in float32 makes unequal logits equal.

    Returns:
        Class indices, (B,).
    """
    return logits.argmax(dim=1)


def top_classes(logits: Tensor, count: int) -> Tensor:
    """The classes with the largest logits, the largest first; of equal logits the first class comes first.

    Args:
        logits: (B, K).
        count: Classes of each example, at most K.

    Returns:
        Class indices, (B, count); the first column is :func:`predicted_classes`.
    """
    return logits.argsort(dim=1, descending=True, stable=True)[:, :count]  # topk orders equal logits arbitrarily


def prediction_cells(logits: Tensor, names: Sequence[str], several: bool) -> Iterator[Sequence[object]]:
    """Cells of each example in a table: class, name and probability, or the probability of every label.

    Args:
        logits: (B, K).
        names: Names of the classes; empty if unknown.
        several: Whether an example may have several labels.
    """
    if several:
        yield from ([f"{value:.6f}" for value in row] for row in logits.sigmoid().tolist())
        return
    labels = predicted_classes(logits)
    probabilities = logits.softmax(dim=1).gather(1, labels[:, None])
    for label, value in zip(labels.tolist(), probabilities.flatten().tolist(), strict=True):
        yield [label, names[label] if names else "", f"{value:.6f}"]
