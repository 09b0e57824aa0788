"""How well starts tell the classes of a data set apart before any training."""

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn

from data_modules.catalog import open_set
from data_modules.image_module import ImageDataModule
from lgx.architectures import ViTArchitecture
from lgx.components.probes import NEIGHBORS, Probe, frozen_features
from lgx.core.batch import Batch
from lgx.core.progress import tracked
from lgx.core.task import Normalization
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
    like = architectures[0]
    module = open_classes("--data", data, like.img_size, like.in_chans, initializer.normalization())
    scores = {}
    for architecture in tracked(architectures, "measuring", unit="networks"):
        torch.manual_seed(seed)
        network = initialize(architecture, initializer, head="new").model.eval()
        known, known_labels = _features(network, module.reference_dataloader(_MOST))
        tested, tested_labels = _features(network, module.val_dataloader())
        probe = Probe("knn", min(NEIGHBORS, len(known)))
        scores[architecture] = probe.accuracy(known, known_labels, tested, tested_labels)
    return scores


def open_classes(option: str, data: str, img_size: int, in_chans: int, inputs: Normalization | None) -> ImageDataModule:
    """A set with one class for each image, read for training in the form of a network.

    Args:
        option: The option that names it.
        data: Name of the set, or folder with ``train/<class>/<image>``.
        img_size: Height and width of the images, pixels.
        in_chans: Their channels.
        inputs: Mean and std; None for the set's own.

    Raises:
        UserError: If the data cannot be read or are of another kind.
    """
    module = open_set(data)
    module.img_size, module.in_chans = img_size, in_chans
    if module.task.kind != "classification":
        raise UserError(f"{option} {data}: is for {module.task.kind}; give a set with one class for each image")
    if inputs is not None:
        module.follow_normalization(*inputs)
    module.check_options()
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
