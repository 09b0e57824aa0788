"""The options of image sets."""

import math
from dataclasses import dataclass
from typing import ClassVar

from torchvision.transforms import v2

from data_modules.images.transforms import Augment
from data_modules.loading.options import DataOptions, check_least
from lgx.core.image_size import IMAGE_SIZE, ImageSize
from lgx.core.reading import ResizeMode
from lgx.errors import UserError
from lgx.host.images import MOST_CHANNELS


@dataclass(eq=False, repr=False)
class ImageOptions(DataOptions):
    """Options of image sets.

    Args:
        img_size: Side of the images in pixels, or ``[height, width]``; default the data set's own, or that of the
            network's source where ``model.arch`` is left out, too.
        in_chans: 1 (gray) or 3 (RGB) channels; default the data set's own. Class folders of your own may have 2 to 16,
            as .npy or TIFF files.
        value_range: Values [LOW, HIGH] of image files with more than 8 bits that become 0 and 255; default all that
            unsigned 16 bits can have, or 0 and 1 of floating-point numbers. Files that use less than half of it need
            their own.
        resize: How images get the size: ``crop`` (resized until they cover it, cropped at the center), ``squash``
            (without their proportions), or ``letterbox`` (whole, within a border of the mean color).
        augment: Training augmentation: ``none``; ``crop`` (random crops of the padded image) or ``crop_flip`` (the same
            with flips) for small images; ``resized_crop`` (crops of 8 % to all of the area, with flips) or
            ``randaugment`` (the same with timm's ``rand-m9-mstd0.5-inc1``) for large ones. Where a mirrored image has
            another class, as digits and signs have, take ``none`` or ``crop``.
        transforms: Further transforms of each training image, after ``augment``: a list of torchvision's
            ``transforms.v2``, e.g. ``[{class_path: RandomRotation, init_args: {degrees: 15}}]``. They get pixels,
            uint8, of the task's size, and keep this size. ``LGX_ALLOW_IMPORTS`` also admits your own subclasses of
            ``transforms.v2.Transform``.
        mean: Mean of each channel with which images are normalized, in units of pixel value / 255; default that of the
            network's start where it is known, else the data set's own.
        std: Standard deviation of each channel, likewise; give both or neither.
        cache_gib: Decode the images of a split once if their pixels take at most so many GiB, and keep them in a file
            that processes and runs share: below ``$LGX_CACHE``, or ``~/.cache/lgx``. 0 decodes them in each epoch, as
            ``resized_crop``, ``randaugment``, masks and streams always do.
        labels: ``false`` gives the images without their labels, for methods that learn from an ancestor alone.
        balanced: Draw the training images of an epoch with replacement, so that all classes are drawn equally often.
            Validation then follows balanced accuracy.
    """

    img_size: ImageSize | None = None
    in_chans: int | None = None
    value_range: tuple[float, float] | None = None
    resize: ResizeMode = "crop"
    augment: Augment = "none"
    transforms: list[v2.Transform] | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    cache_gib: float = 2.0
    labels: bool = True
    balanced: bool = False
    any_channels: ClassVar[bool] = False
    """Whether ``in_chans`` may be other than 1 and 3."""
    sized_by_network: ClassVar[bool] = False
    """Whether a run reads the images in the size of its network, because the set has no size of its own."""

    @property
    def has_channels(self) -> bool:
        """Whether the images are neither gray nor RGB."""
        return self.in_chans not in (None, 1, 3)

    def check_options(self) -> None:
        """See :class:`DataOptions`."""
        super().check_options()
        check_least(self, {"cache_gib": 0})
        if self.img_size is not None and not IMAGE_SIZE.holds(self.img_size):
            raise UserError(f"data.img_size: expected {IMAGE_SIZE.words}, got {self.img_size}")
        if self.has_channels and not (self.any_channels and 1 < (self.in_chans or 0) <= MOST_CHANNELS):
            others = f", or up to {MOST_CHANNELS} of .npy or TIFF files" if self.any_channels else ""
            raise UserError(f"data.in_chans: expected 1 (gray) or 3 (RGB){others}, got {self.in_chans}")
        if self.has_channels and self.augment not in ("none", "crop", "crop_flip"):
            raise UserError(f"data.augment: {self.augment} is for gray and RGB images; use crop or crop_flip")
        low, high = self.value_range or (0, 1)
        if not -math.inf < low < high < math.inf:
            raise UserError(f"data.value_range: expected two numbers, the smaller one first, got {low:g}, {high:g}")
        if (self.mean is None) != (self.std is None):
            raise UserError("data.mean and data.std: give both or neither")
        for option, values, least in (("mean", self.mean, -1.0), ("std", self.std, 0.0)):
            wrong = [value for value in values or () if not least < value < 5]  # 5: a mistake of factor 255 is larger
            if wrong or (values is not None and len(values) not in (1, 3, self.in_chans)):
                several = f"1, 3 or {self.in_chans}" if self.has_channels else "1 or 3"
                raise UserError(
                    f"data.{option}: expected {several} numbers in units of pixel value / 255, got "
                    f"{', '.join(map(str, values or ()))}"
                )
