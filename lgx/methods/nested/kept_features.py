"""The ancestor's features of texts, computed once: texts are not augmented, so they are the same in every epoch."""

from collections.abc import Iterable

import torch
from einops import rearrange
from torch import Tensor

from lgx.components.features import Features

MOST_BYTES = 2**31
"""Most memory for the features of all training texts."""


class KeptFeatures:
    """Features of texts by their tokens.

    Args:
        batches: Texts, (B, 3, N), and their features.
    """

    def __init__(self, batches: Iterable[tuple[Tensor, Features]]) -> None:
        self._features: dict[bytes, tuple[Tensor, Tensor]] = {}
        for inputs, features in batches:
            tokens = rearrange(features.patches, "b d 1 n -> b n d").cpu()
            for key, size, summary, row in zip(*_keys(inputs), features.summary.cpu(), tokens, strict=True):
                self._features[key] = summary, row[:size].clone()

    def __len__(self) -> int:
        return len(self._features)

    def of(self, inputs: Tensor) -> Features:
        """Features of texts (B, 3, N); those of padding are zero.

        Raises:
            KeyError: If a text is not kept.
        """
        keys, sizes = _keys(inputs)
        summaries, rows = zip(*(self._features[key] for key in keys), strict=True)
        tokens = torch.zeros(*inputs.shape[::2], rows[0].shape[1])
        for place, row, size in zip(tokens, rows, sizes, strict=True):
            place[:size] = row
        features = torch.stack(summaries), rearrange(tokens, "b n d -> b d 1 n")
        return Features(*(part.to(inputs.device) for part in features))


def _keys(inputs: Tensor) -> tuple[list[bytes], list[int]]:
    """Of each text (B, 3, N) its tokens without padding as bytes, and their number."""
    sizes = inputs[:, 1].sum(dim=1).tolist()
    texts = inputs.cpu().numpy()
    return [text[:, :size].tobytes() for text, size in zip(texts, sizes, strict=True)], sizes
