"""Distillation of features, and distillation on images without labels; both are ours."""

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor, nn

from lgx.artifacts.pretrained import load_pretrained
from lgx.components.features import FeatureProjection, Features, features_and_logits
from lgx.errors import UserError

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


def classes_of(ancestor: str) -> int:
    """Number of classes of an ancestor's head, for a network that learns without labels."""
    source = load_pretrained(ancestor)
    classes: Any = getattr(source.model, "num_classes", 0) if source.has_head else 0
    if not classes:
        raise UserError(
            f"model.guidance: without labels, logits need the ancestor's head, but {ancestor} has no head; choose "
            "features"
        )
    if source.architecture is not None and source.architecture.kind == "multilabel":
        raise UserError(
            f"model.guidance: without labels, logits are compared as classes, but {ancestor} predicts several labels; "
            "choose features, or give labels"
        )
    return int(classes)
