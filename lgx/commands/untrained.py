"""k-NN accuracy of starts on a data set before any training."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from data_modules.catalog import open_classes
from lgx.architectures import ViTArchitecture
from lgx.components.features import NEIGHBORS, Probe, frozen_features
from lgx.core.batch import Batch
from lgx.core.progress import tracked
from lgx.initialization import Initializer, initialize

_MOST = 2000
"""Largest number of training images and of validation images."""


def knn_scores(
    architectures: Sequence[ViTArchitecture], initializer: Initializer, data: str, seed: int
) -> dict[ViTArchitecture, float]:
    """k-NN accuracy of each start on validation images.

    Args:
        architectures: The networks, which read images of one size.
        initializer: Starts them.
        data: Data set by name, or folder with ``train/<class>/<image>``.
        seed: Seed of random parameters.
    """
    like = architectures[0]
    inputs = initializer.normalization(), initializer.origin().reading
    module = open_classes("--data", data, like.img_size, like.in_chans, *inputs)
    scores = {}
    for architecture in tracked(architectures, "measuring", unit="networks"):
        torch.manual_seed(seed)
        network = initialize(architecture, initializer, head="new").model.eval()
        known, known_labels = _features(network, module.reference_dataloader(_MOST))
        tested, tested_labels = _features(network, module.val_dataloader())
        probe = Probe("knn", min(NEIGHBORS, len(known)))
        scores[architecture] = probe.accuracy(known, known_labels, tested, tested_labels)
    return scores


def _features(network: nn.Module, batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
    """Features (N, T) and labels (N,) of the first images."""
    features, labels, seen = [], [], 0
    for batch in batches:
        features.append(frozen_features(network, batch.inputs))
        labels.append(batch.targets)
        if (seen := seen + len(batch.inputs)) >= _MOST:
            break
    return torch.cat(features), torch.cat(labels)
