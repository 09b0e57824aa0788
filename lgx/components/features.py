"""Features of networks: a summary, and patches or tokens; losses that compare them, and probes.

A probe tells how well frozen features tell classes apart, without a trained head:

- ``knn``: the k nearest training images vote, each with the weight exp(s / T) for its cosine similarity s (Wu et al.,
  "Unsupervised Feature Learning via Non-Parametric Instance Discrimination", CVPR 2018, Sec. 3.4; k = 20 and T = 0.07
  as in Caron et al., "DINO", ICCV 2021).
- ``linear``: logistic regression with L2 regularization, C = 1, fitted with at most 1,000 steps of L-BFGS on features
  that are standardized, as by the batch norm before a linear probe in He et al., "Masked Autoencoders", CVPR 2022, App.
  A.1. It is deterministic, and has neither a learning rate nor epochs.
"""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from math import isqrt
from typing import Any, Literal, NamedTuple, cast

import numpy as np
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from lgx.artifacts.vector_space import Space
from lgx.errors import UserError

COSINE_SHARE = 0.9
"""Share of the cosine distance in the loss of patches; the rest is smooth L1 (AM-RADIO, Sec. 3)."""


class Features(NamedTuple):
    """Features of a batch of images or texts.

    Attributes:
        summary: What a head reads: the class token after the last norm, or the pooled tokens, (B, D). Of texts the mean
            of the tokens, or what the source's pooling says.
        patches: Patch tokens after the last norm, in their grid, (B, D, h, w). Of texts all tokens, (B, D, 1, N).
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


def features_and_logits(model: Any, inputs: Tensor, real: Tensor | None = None) -> tuple[Features, Tensor]:
    """Run a network.

    Args:
        model: Any model of timm as for :func:`read_features`, or a network of texts.
        inputs: Images (B, C, H, W), or token ids (B, N).
        real: Which tokens count, (B, N); None for images.

    Returns:
        The features, and logits.
    """
    if real is None:
        features, tokens = read_features(model, inputs)
        return features, model.forward_head(tokens)
    tokens, logits = model.tokens_and_logits(inputs)
    return Features(model.pooled(tokens, real), rearrange(tokens, "b n d -> b d 1 n")), logits


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
    """Learned projections of a student's features to the teacher's width (FitNets, Romero et al., 2015, Sec. 2.2).

    Summary and patches have one linear layer each. If the widths agree, both start as the identity (ours): features of
    a student that starts from its teacher's layers need no projection.

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
        """Features in the teacher's widths and the student's grid."""
        patches = self.patches(rearrange(features.patches, "b d h w -> b h w d"))
        return Features(self.summary(features.summary), rearrange(patches, "b h w d -> b d h w"))


def feature_losses(student: Features, teacher: Features, real: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Distance of a student's projected features from its teacher's.

    The loss is AM-RADIO's (Ranzinger et al., "AM-RADIO: Agglomerative Vision Foundation Model", CVPR 2024, Sec. 3):
    ``1 - cos`` of the summaries, plus for the patches ``0.9 (1 - cos) + 0.1`` smooth L1, averaged over the patches. If
    the grids differ, the teacher's is resampled bilinearly to the student's, so that no gradient passes through it.

    Args:
        student: Its features.
        teacher: The features that they are compared with.
        real: Which tokens of texts count, (B, N); None for images.

    Returns:
        Loss of each image, (B,), at least 0; cosine similarity of the summaries, (B,), in [-1, 1].
    """
    similarity = F.cosine_similarity(student.summary.float(), teacher.summary.float(), dim=1)
    patches = student.patches.float()
    wanted = teacher.patches.float()
    if wanted.shape[2:] != patches.shape[2:]:
        wanted = F.interpolate(wanted, size=patches.shape[2:], mode="bilinear", align_corners=False, antialias=True)

    def mean(values: Tensor) -> Tensor:  # (B, h, w)
        if real is None:
            return values.mean(dim=(1, 2))
        return (values.squeeze(1) * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)

    angles = 1 - mean(F.cosine_similarity(patches, wanted, dim=1))
    distances = mean(F.smooth_l1_loss(patches, wanted, reduction="none").mean(dim=1))
    return (1 - similarity) + COSINE_SHARE * angles + (1 - COSINE_SHARE) * distances, similarity


class Encoder(nn.Module):
    """A network that gives normalized vectors: (B, T) of images (B, C, H, W) or texts (B, 3, N).

    Args:
        network: A model of timm or a network of texts.
        space: Map of its vectors into its ancestor's space; None keeps its own.
    """

    def __init__(self, network: nn.Module, space: Space | None) -> None:
        super().__init__()
        self.network = network
        self.map: nn.Module = nn.Identity()
        if space is not None:
            width, inner = space.weight.shape
            self.map = nn.Linear(inner, width)
            self.map.load_state_dict({"weight": space.weight, "bias": space.bias})

    def forward(self, inputs: Tensor) -> Tensor:
        """Normalized vectors, (B, T)."""
        return F.normalize(self.map(before_head(self.network, inputs)), dim=1)


def sum_features(teacher: Any, batches: Iterable[Tensor]) -> tuple[Tensor, int]:
    """Sum a teacher's features over the examples of a task; the task's embedding is their mean (TAL, Sec. 4).

    Args:
        teacher: The :class:`~lgx.components.teacher.Teacher`.
        batches: Images normalized for its task, (B, C, H, W) each, or token ids, (B, N) each.

    Returns:
        The sum in float64, (T,), and the number of inputs.
    """
    total = torch.zeros(teacher.width, dtype=torch.float64)
    count = 0
    for inputs in batches:
        total += teacher.features(inputs).double().sum(dim=0).cpu()
        count += len(inputs)
    return total, count


def gathered(tensors: tuple[Tensor, ...], processes: int) -> list[tuple[Tensor, ...]]:
    """Gather the tensors of all processes; their lengths may differ."""
    if processes == 1:
        return [tensors]
    parts: list[Any] = [None] * processes
    torch.distributed.all_gather_object(parts, tensors)
    return parts


ProbeName = Literal["knn", "linear"]

NEIGHBORS = 20
_TEMPERATURE = 0.07
_MOST: dict[ProbeName, int] = {"knn": 200_000, "linear": 50_000}
"""Largest number of training images of a probe; more take long and change little."""


def before_head(model: Any, inputs: Tensor) -> Tensor:
    """What precedes the head, (B, T): the class token after the last norm, or the pooled tokens; of texts these."""
    if inputs.ndim == 3:
        return cast(Tensor, model.pooled(model.tokens(inputs), inputs[:, 1]))
    return cast(Tensor, model.forward_head(model.forward_features(inputs), pre_logits=True))


@torch.no_grad()
def frozen_features(network: nn.Module, images: Tensor) -> Tensor:
    """The features of images (B, C, H, W) that precede the head, (B, T), float32, without gradient."""
    return before_head(network, images).float()


@dataclass(frozen=True)
class Probe:
    """A classifier on frozen features.

    Args:
        name: ``knn`` or ``linear``.
        neighbors: Number of neighbors, k; all training images if there are fewer.
    """

    name: ProbeName
    neighbors: int = NEIGHBORS

    @property
    def metric(self) -> str:
        """Name of its accuracy in results: ``knn_acc`` or ``linear_acc``."""
        return f"{self.name}_acc"

    @property
    def most(self) -> int:
        """Largest number of training images."""
        return _MOST[self.name]

    def accuracy(self, features: Tensor, labels: Tensor, tested_features: Tensor, tested_labels: Tensor) -> float:
        """Share of images that the classifier classifies correctly.

        Args:
            features: Features of training images, (N, T).
            labels: Their classes, (N,).
            tested_features: Features of other images, (M, T).
            tested_labels: Their classes, (M,).
        """
        if not (features.isfinite().all() and tested_features.isfinite().all()):
            raise UserError(f"--probe {self.name}: a feature is not finite; check the weights of the network")
        classes = labels.unique()
        if len(classes) < 2:
            raise UserError(
                f"--probe {self.name}: all {len(features)} training images are of class {int(classes[0])}; give images "
                "of at least two classes"
            )
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.linear_model import LogisticRegression
        from sklearn.neighbors import KNeighborsClassifier
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        classifier: Any = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        if self.name == "knn":
            neighbors = min(self.neighbors, len(features))
            classifier = KNeighborsClassifier(neighbors, weights=_votes, algorithm="brute", metric="cosine")
        with warnings.catch_warnings(category=ConvergenceWarning, action="ignore"):
            classifier.fit(features.numpy(), labels.numpy())
        return float(classifier.score(tested_features.numpy(), tested_labels.numpy()))


def _votes(distances: Any) -> Any:
    """Weights of neighbors at cosine distances 1 - s."""
    return np.exp((1 - distances) / _TEMPERATURE)
