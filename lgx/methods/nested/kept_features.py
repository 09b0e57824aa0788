"""The ancestor's features of texts, computed once: texts are not augmented, so they are the same in every epoch."""

from collections.abc import Iterable

import torch
from einops import rearrange
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lgx.components.features import Features

MOST_BYTES = 2**31
"""Most memory for the features of all training texts."""


class KeptFeatures:
    """Features of texts by their tokens, in the main memory.

    Args:
        batches: Texts, (B, 3, N), padded on the right, and their features: summaries (B, D), tokens (B, D, 1, N).
    """

    def __init__(self, batches: Iterable[tuple[Tensor, Features]]) -> None:
        self._features: dict[bytes, tuple[Tensor, Tensor]] = {}
        for inputs, features in batches:
            tokens = rearrange(features.patches, "b d 1 n -> b n d").cpu()
            for text, summary, row in zip(inputs.cpu(), features.summary.cpu(), tokens, strict=True):
                self._features[_key(text)] = summary, row[: text[1].sum()].clone()

    def __len__(self) -> int:
        return len(self._features)

    def of(self, inputs: Tensor) -> Features:
        """Features of texts (B, 3, N), padded to the longest of them; those of padding are zero.

        Raises:
            KeyError: If a text is not kept.
        """
        features = [self._features[_key(text)] for text in inputs.cpu()]
        summary = torch.stack([summary for summary, _ in features])
        tokens = pad_sequence([tokens for _, tokens in features], batch_first=True)
        return Features(summary.to(inputs.device), rearrange(tokens, "b n d -> b d 1 n").to(inputs.device))


def _key(text: Tensor) -> bytes:
    """The tokens of a text, (3, N), without padding."""
    return text[:, : text[1].sum()].numpy().tobytes()
