"""How well starts tell the classes of a data set apart before any training."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from data_modules.catalog import open_set
from data_modules.image_module import ImageDataModule
from lgx.architectures import ViTArchitecture
from lgx.components.probes import NEIGHBORS, Probe, frozen_features
from lgx.core.batch import Batch
from lgx.core.progress import tracked
from lgx.errors import UserError
from lgx.initialization import Initializer, initialize

_MOST = 2000
"""Training images, and validation images, that are read at most."""


def knn_scores(
    architectures: Sequence[ViTArchitecture], initializer: Initializer, data: str, seed: int
) -> dict[ViTArchitecture, float]:
    """Accuracy of a k-NN probe of each start, on validation images.

    Args:
        architectures: The networks, which read images of one size.
        initializer: Starts them.
        data: Data set by name, or folder with ``train/<class>/<image>``.
        seed: Seed of random parameters.

    Raises:
        UserError: If the data cannot be read, have no classes, or are too few.
    """
    module = _opened(data, architectures[0], initializer)
    scores = {}
    for architecture in tracked(architectures, "measuring", unit="networks"):
        torch.manual_seed(seed)
        network = initialize(architecture, initializer, head="new").model.eval()
        known, known_labels = _features(network, module.reference_dataloader(_MOST))
        tested, tested_labels = _features(network, module.val_dataloader())
        probe = Probe("knn", min(NEIGHBORS, len(known)))
        scores[architecture] = probe.accuracy(known, known_labels, tested, tested_labels)
    return scores


def _opened(data: str, architecture: ViTArchitecture, initializer: Initializer) -> ImageDataModule:
    """The data module with its training and validation images, in the form that the networks read."""
    if (folder := Path(data)).is_dir() and not (folder / "train").is_dir():
        raise UserError(
            f"--data {data}: has no folder train/ with a folder of images for each class, which a k-NN accuracy needs; "
            f"leave out --data"
        )
    module = open_set(data)
    module.img_size, module.in_chans = architecture.img_size, 1 if architecture.in_chans == 1 else 3
    if module.task.kind != "classification":
        raise UserError(f"--data {data}: is for {module.task.kind}, but a k-NN accuracy needs classes of whole images")
    normalization = initializer.normalization()
    if normalization is not None:
        module.follow_normalization(*normalization)
    module.prepare_data()
    module.setup("fit")
    return module


def _features(network: nn.Module, batches: Iterable[Batch]) -> tuple[Tensor, Tensor]:
    """Features (N, T) and labels (N,) of the first images."""
    features, labels, seen = [], [], 0
    for batch in batches:
        features.append(frozen_features(network, batch.inputs))
        labels.append(batch.targets)
        if (seen := seen + len(batch.inputs)) >= _MOST:
            break
    return torch.cat(features), torch.cat(labels)
