"""Features of image models: a summary of the image, and a grid of patches; and losses that compare them."""

from collections.abc import Iterable
from math import isqrt
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from lgx.errors import UserError

COSINE_SHARE = 0.9
"""Share of the cosine distance in the loss of patches; the rest is smooth L1 (AM-RADIO, Sec. 3)."""


class Features(NamedTuple):
    """Features of a batch of images.

    Attributes:
        summary: What a head reads: the class token after the last norm, or the pooled tokens, (B, D).
        patches: Patch tokens after the last norm, in their grid, (B, D, h, w).
    """

    summary: Tensor
    patches: Tensor


def read_features(model: Any, images: Tensor) -> tuple[Features, Tensor]:
    """Run a model of timm up to its head.

    Args:
        model: Any model of timm with ``forward_features`` and ``forward_head``.
        images: (B, C, H, W).

    Returns:
        The features, and the output of ``forward_features``, from which ``forward_head`` makes logits.
    """
    tokens: Tensor = model.forward_features(images)
    return Features(model.forward_head(tokens, pre_logits=True), _patches(model, tokens)), tokens


def _patches(model: Any, tokens: Tensor) -> Tensor:
    """Patch tokens (B, P + N, D) or a feature map, as (B, D, rows, columns)."""
    if tokens.ndim == 4:
        return rearrange(tokens, "b h w d -> b d h w") if getattr(model, "output_fmt", "") == "NHWC" else tokens
    patches = tokens[:, getattr(model, "num_prefix_tokens", 0) :]
    count = patches.shape[1]
    rows = getattr(getattr(model, "patch_embed", None), "grid_size", (0, 0))[0]
    rows = rows if rows and count % rows == 0 else isqrt(count)
    if rows == 0 or count % rows:
        raise UserError(f"{type(model).__name__}: its {count} patch tokens have no grid; distill with guidance: logits")
    return rearrange(patches, "b (h w) d -> b d h w", h=rows)


class FeatureProjection(nn.Module):
    """Learned projections of a student's features to its teacher's width (FitNets, Romero et al., 2015, Sec. 2.2).

    Summary and patches have one linear layer each. Where the widths agree both start as the identity, which is ours: a
    student that starts from its teacher's layers then begins with features that need no projection.

    Args:
        width: Width of the student's features, D.
        summary: Width of the teacher's summary.
        patches: Width of the teacher's patches.
    """

    def __init__(self, width: int, summary: int, patches: int) -> None:
        super().__init__()
        self.summary, self.patches = nn.Linear(width, summary), nn.Linear(width, patches)
        for layer in (self.summary, self.patches):
            if layer.in_features == layer.out_features:
                nn.init.eye_(layer.weight)
                nn.init.zeros_(layer.bias)

    def forward(self, features: Features) -> Features:
        """Features in the teacher's widths; the grid is the student's."""
        patches = self.patches(rearrange(features.patches, "b d h w -> b h w d"))
        return Features(self.summary(features.summary), rearrange(patches, "b h w d -> b d h w"))


def feature_losses(student: Features, teacher: Features) -> tuple[Tensor, Tensor]:
    """Distance of a student's projected features from its teacher's.

    The loss is AM-RADIO's (Ranzinger et al., "AM-RADIO: Agglomerative Vision Foundation Model", CVPR 2024, Sec. 3):
    ``1 - cos`` of the summaries, plus for the patches ``0.9 (1 - cos) + 0.1`` smooth L1, averaged over the patches. If
    the grids differ, the teacher's is resampled bilinearly to the student's, so that no gradient passes through it.

    Returns:
        Loss of each image, (B,), at least 0; cosine similarity of the summaries, (B,), in [-1, 1].
    """
    similarity = F.cosine_similarity(student.summary.float(), teacher.summary.float(), dim=1)
    patches, wanted = student.patches.float(), teacher.patches.float()
    if wanted.shape[2:] != patches.shape[2:]:
        wanted = F.interpolate(wanted, size=patches.shape[2:], mode="bilinear", align_corners=False, antialias=True)
    angles = 1 - F.cosine_similarity(patches, wanted, dim=1).mean(dim=(1, 2))
    distances = F.smooth_l1_loss(patches, wanted, reduction="none").mean(dim=(1, 2, 3))
    return (1 - similarity) + COSINE_SHARE * angles + (1 - COSINE_SHARE) * distances, similarity


def sum_features(teacher: Any, batches: Iterable[Tensor]) -> tuple[Tensor, int]:
    """Sum a teacher's features over the examples of a task; the task's embedding is their mean (TAL, Sec. 4).

    Args:
        teacher: The :class:`~lgx.components.teacher.Teacher`.
        batches: Images normalized for its task, (B, C, H, W) each, or token ids, (B, N) each.

    Returns:
        The sum in float64, (T,), and the number of inputs.
    """
    total, count = torch.zeros(teacher.width, dtype=torch.float64), 0
    for inputs in batches:
        total += teacher.features(inputs).double().sum(dim=0).cpu()
        count += len(inputs)
    return total, count
