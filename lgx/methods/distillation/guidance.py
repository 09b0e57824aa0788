"""Distillation of features, which is ours."""

from collections.abc import Mapping
from typing import cast

from torch import Tensor, nn

from lgx.components.features import FeatureProjection, Features, features_and_logits

PROJECTION = "projection."
"""Name of the projection in the trained network, so that it is trained and saved; the learngene excludes it."""


def stored_widths(state: Mapping[str, Tensor]) -> tuple[int, int]:
    """Widths of the ancestor's summary and patches, from a checkpoint's state dict."""
    summary, patches = (len(state[f"network.{PROJECTION}{part}.bias"]) for part in ("summary", "patches"))
    return summary, patches


def projected_features(network: nn.Module, inputs: Tensor, real: Tensor | None = None) -> tuple[Features, Tensor]:
    """Features in the ancestor's widths, and logits.

    Args:
        network: A network with a projection.
        inputs: Images (B, C, H, W), or token ids (B, N).
        real: Which tokens count, (B, N); None for images.
    """
    features, logits = features_and_logits(network, inputs, real)
    return cast(FeatureProjection, network.projection)(features), logits
