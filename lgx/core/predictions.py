"""From logits to classes: the one rule of tests, predictions, exports and comparisons."""

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
