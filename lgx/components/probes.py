"""Probes: how well frozen features tell classes apart, without a trained head.

- ``knn``: the k nearest training images vote, each with the weight exp(s / T) for its cosine similarity s (Wu et al.,
  "Unsupervised Feature Learning via Non-Parametric Instance Discrimination", CVPR 2018, Sec. 3.4; k = 20 and T = 0.07
  as in Caron et al., "DINO", ICCV 2021).
- ``linear``: logistic regression with L2 regularization, C = 1, fitted with at most 1,000 steps of L-BFGS on features
  that are standardized, as by the batch norm before a linear probe in He et al., "Masked Autoencoders", CVPR 2022, App.
  A.1. It is deterministic, and has neither a learning rate nor epochs.
"""

import warnings
from dataclasses import dataclass
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from lgx.errors import UserError

ProbeName = Literal["knn", "linear"]

NEIGHBORS = 20
_TEMPERATURE = 0.07
_MOST: dict[ProbeName, int] = {"knn": 200_000, "linear": 50_000}
"""Training images that a probe reads at most; beyond, it takes long and changes little."""


def frozen_features(network: nn.Module, images: Tensor) -> Tensor:
    """What precedes the head of a timm model: the class token after the last norm, or the pooled tokens.

    Args:
        network: The model.
        images: (B, C, H, W).

    Returns:
        Features, (B, T), float32, without gradient.
    """
    model = cast(Any, network)
    with torch.no_grad():
        features: Tensor = model.forward_head(model.forward_features(images), pre_logits=True)
    return features.float()


@dataclass(frozen=True)
class Probe:
    """A classifier on frozen features.

    Args:
        name: ``knn`` or ``linear``.
        neighbors: Neighbors that vote, k.
    """

    name: ProbeName
    neighbors: int = NEIGHBORS

    def __post_init__(self) -> None:
        if self.neighbors < 1:
            raise UserError(f"--probe_k: expected at least 1, got {self.neighbors}")

    @property
    def metric(self) -> str:
        """Name of its accuracy in results: ``knn_acc`` or ``linear_acc``."""
        return f"{self.name}_acc"

    @property
    def most(self) -> int:
        """Training images that it reads at most."""
        return _MOST[self.name]

    def accuracy(self, known: Tensor, known_labels: Tensor, tested: Tensor, tested_labels: Tensor) -> float:
        """Share of images that the classifier classifies correctly.

        Args:
            known: Features of training images, (N, T).
            known_labels: Their classes, (N,).
            tested: Features of other images, (M, T).
            tested_labels: Their classes, (M,).
        """
        if not (known.isfinite().all() and tested.isfinite().all()):
            raise UserError(f"--probe {self.name}: a feature is not finite; check the weights of the network")
        if len(classes := known_labels.unique()) < 2:
            raise UserError(
                f"--probe {self.name}: the {len(known)} training images are all of class {int(classes[0])}; give "
                f"images of two classes at least"
            )
        if self.name == "knn" and self.neighbors > len(known):
            raise UserError(
                f"--probe_k {self.neighbors}: there are only {len(known)} training images; give at most so many"
            )
        from sklearn.exceptions import ConvergenceWarning

        classifier = self._classifier()
        with warnings.catch_warnings(category=ConvergenceWarning, action="ignore"):
            classifier.fit(known.numpy(), known_labels.numpy())
        return float(classifier.score(tested.numpy(), tested_labels.numpy()))

    def _classifier(self) -> Any:
        if self.name == "knn":
            from sklearn.neighbors import KNeighborsClassifier

            return KNeighborsClassifier(self.neighbors, weights=_votes, algorithm="brute", metric="cosine")
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler

        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


def _votes(distances: Any) -> Any:
    """Weights of neighbors at cosine distances 1 - s."""
    return np.exp((1 - distances) / _TEMPERATURE)
