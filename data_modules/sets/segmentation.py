"""``SegmentationSet``: the base of the sets for semantic segmentation, which have a class for every pixel."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from data_modules.base import Split
from data_modules.files.errors import DataError, decoding
from data_modules.images.examples import Images, LabeledImages
from data_modules.images.transforms import MaskTransform
from data_modules.loading.samplers import TransformedExamples
from data_modules.sets.official import OfficialData
from data_modules.splits import stratified_order
from lgx.core.batch import Batch
from lgx.core.task import IGNORE
from lgx.errors import UserError
from lgx.host.safety import open_image


class MaskedImages(LabeledImages):
    """Images with a class index for every pixel.

    An image has no class of its own: all ``labels`` are 0, so that a class-stratified draw is a plain seeded draw here.

    Args:
        files: Paths of the images and of their masks.
        meanings: Class index of each value that a pixel of a mask may have.
        where: Set and split, for error messages.
    """

    def __init__(self, files: Sequence[tuple[Path, Path]], meanings: Mapping[int, int], where: str) -> None:
        super().__init__(files, np.zeros(len(files)), where)
        self.meanings = meanings
        self._table = np.full(256, -1, np.int16)
        self._table[list(meanings)] = list(meanings.values())

    def __getitem__(self, index: int) -> tuple[Image.Image, Any]:
        """The image, and the class indices of its pixels, uint8 (H, W)."""
        image_path, mask_path = self.source[int(self.indices[index])]
        image, mask = self._decode(image_path), self._decode(mask_path)
        if image.size != mask.size:
            raise DataError(
                f"{self.where}: {mask_path} has {mask.width} x {mask.height} pixels, but its image {image_path} has "
                f"{image.width} x {image.height}; both must have the same size"
            )
        return image, self._classes(np.asarray(mask), mask_path)

    def paths(self) -> list[Path]:
        """The files of the images and of their masks."""
        return [path for index in self.indices for path in self.source[index]]

    def encoded(self, index: int) -> tuple[bytes, str] | None:
        """Refuse to be written as shards, which hold one class per image."""
        raise UserError(f"{self.where}: masks cannot be written as shards, which hold one class per image")

    def _decode(self, path: Path) -> Image.Image:
        with decoding(f"{self.where}: {path}", "restore the file"):
            return open_image(path)

    def _classes(self, values: NDArray[Any], path: Path) -> NDArray[np.uint8]:
        if values.ndim != 2:
            raise DataError(f"{self.where}: {path} is a color image; expected a mask with one label per pixel")
        in_range = (values >= 0) & (values < 256)
        classes = self._table[np.where(in_range, values, 0)]
        in_range &= classes >= 0
        if not in_range.all():
            last = max(label for label in self.meanings if label != IGNORE)
            others = f" or {IGNORE}" if IGNORE in self.meanings else ""
            raise DataError(
                f"{self.where}: {path} has a pixel with label {values[~in_range][0]}; expected 0 to {last}{others}"
            )
        return classes.astype(np.uint8)


class SegmentationSet(OfficialData):
    """Base of the sets of images and masks.

    The labels of the official test images were never published, so the official **validation** split is the **test**
    split here, and validation images are a seeded draw from the training images. A subclass also implements
    :meth:`files`.

    Attributes:
        meanings: Class index of each value that a pixel of a mask may have; ``IGNORE`` if the pixel does not count.
    """

    marker: ClassVar[str]
    meanings: ClassVar[Mapping[int, int]]
    tree_names: ClassVar[Mapping[Split, tuple[str, ...]]] = {"train": (), "val": (), "test": ()}

    def check_options(self) -> None:
        """See :class:`~data_modules.loading.module.DataOptions`; masks are always squashed."""
        super().check_options()
        if self.resize != "crop":
            raise UserError("data.resize: images with masks are always squashed; leave it out")

    @abstractmethod
    def files(self, folder: Path, split: Split) -> list[tuple[Path, Path]]:
        """Paths of the images of an official split below ``folder``, and of their masks."""

    def open(self, folder: Path, split: Split) -> MaskedImages:
        """List the files of an official split."""
        return MaskedImages(self.files(folder, split), self.meanings, f"{self.info.name} {split}")

    def transformed(self, examples: Images, train: bool = False, seed: int | None = None) -> TransformedExamples:
        """The examples as tensors, with the same resizing, crop and flip for an image and its mask."""
        augment = self.augment if train else "none"
        seed = self.seed if seed is None else seed
        transform = MaskTransform(self.task, augment)
        return TransformedExamples(examples, transform, seed, random=augment != "none", joint=True)

    def collate(self, examples: Sequence[tuple[Tensor, Any]]) -> Batch:
        """Make a batch of transformed images and masks."""
        images, masks = zip(*examples, strict=True)
        return Batch(torch.stack(images), torch.stack(masks), self.info.name)

    def first(self, examples: Images, count: int, split: Split) -> Images:
        """The first ``count`` examples of a seeded draw."""
        assert isinstance(examples, MaskedImages)
        return examples.take(stratified_order(examples.labels, self.split_seed)[:count])
