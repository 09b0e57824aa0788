"""A few images of a folder, for initializers that measure a network on data."""

from pathlib import Path

import torch
from torch import Tensor

from data_modules.images.class_trees import TREE_NAMES, tree_split
from data_modules.images.examples import ImageFiles
from lgx.core.eval_transforms import eval_transform
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.host.safety import IMAGE_SUFFIXES, list_images
from lgx.initialization.width import evenly_spaced


def sample_images(folder: str, count: int, task: Task) -> Tensor:
    """Read images at even distances in the sorted files of a folder and of all folders below it; labels are not read.

    Of a folder with splits only ``train`` is read, so that no test image takes part in a start. Even distances take
    images of many classes, and the same ones each time.

    Args:
        folder: The folder.
        count: How many images; fewer where the folder holds fewer.
        task: Size, channels and normalization of the images.

    Returns:
        Normalized images, (N, C, H, W).
    """
    place = Path(folder)
    if not place.is_dir():
        raise UserError(f"data {folder}: is not a folder; give a folder with images, labels are not needed")
    place = tree_split(place, TREE_NAMES["train"]) or place
    names = [str(path.relative_to(place)) for path in list_images(place)[0]]
    if not names:
        raise UserError(f"data {folder}: no images in {place} or below (looked for {', '.join(IMAGE_SUFFIXES)})")
    chosen = [names[i] for i in evenly_spaced(len(names), min(count, len(names)))]
    files = ImageFiles(place, chosen, [0] * len(chosen), f"data {folder}")
    transform = eval_transform(task)
    return torch.stack([transform(files[i][0]) for i in range(len(files))])
