"""Image transforms, alone or together with masks, from timm's and torchvision's factories."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray
from PIL import Image
from timm.data.transforms_factory import create_transform
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

from lgx.core.eval_transforms import Resize, ToMode, to_tensor
from lgx.core.eval_transforms import eval_transform as eval_transform
from lgx.core.task import Task
from lgx.errors import UserError

Augment = Literal["none", "crop", "crop_flip", "resized_crop", "randaugment"]


class CropFlip:
    """The augmentations ``crop`` and ``crop_flip`` of a batch of pixels: each image has its own crop and flip.

    It gives the same images as :func:`train_transform`, which transforms them one by one.
    """

    def __init__(self, size: tuple[int, int], flips: bool = True) -> None:
        self.size = size
        self.padding = crop_padding(size)
        self.flips = flips

    def __call__(self, pixels: NDArray[np.uint8], seeds: Sequence[int]) -> NDArray[np.uint8]:
        """Crop and flip ``pixels`` (B, C, H, W) by the seed of each image; they stay as they are."""
        (height, width), (above, before), generator = self.size, self.padding, torch.Generator()
        padded = np.zeros((*pixels.shape[:2], height + 2 * above, width + 2 * before), np.uint8)
        padded[..., above : above + height, before : before + width] = pixels
        places = np.array([2 * above + 1, 2 * before + 1])
        drawn = np.empty((len(pixels), 2), np.int64)
        flipped = np.zeros(len(pixels), bool)
        common = np.lcm(*places)
        for number, seed in enumerate(seeds):
            generator.manual_seed(seed)
            # Both at once: a number below a common multiple is, modulo its divisor, what torchvision draws below that.
            drawn[number] = torch.randint(0, int(common), (2,), generator=generator).tolist()
            flipped[number] = self.flips and torch.rand(1, generator=generator).item() < 0.5
        top, left = (drawn % places).T
        crops = sliding_window_view(padded, (height, width), axis=(2, 3))
        result: NDArray[np.uint8] = crops[np.arange(len(pixels)), :, top, left]
        result[flipped] = result[flipped, ..., ::-1]
        return result


def crop_padding(size: tuple[int, int]) -> tuple[int, int]:
    """Padding of ``crop`` and ``crop_flip`` above and below, left and right: an eighth of height and width."""
    return max(1, size[0] // 8), max(1, size[1] // 8)


def train_transform(task: Task, augment: Augment) -> "v2.Compose":
    """PIL image -> normalized float tensor (C, H, W) with the chosen augmentation.

    ``crop`` pads by an eighth and crops at random, as usual for small images, and ``crop_flip`` also flips.
    ``resized_crop`` is timm's training transform, a crop of 8 % to all of the area and a flip. ``randaugment`` adds
    DeiT's ``rand-m9-mstd0.5-inc1`` and random erasing 0.25.

    Args:
        task: Gives size, channels and normalization.
        augment: The augmentation.
    """
    tensor = to_tensor(task)
    if augment == "none":
        return v2.Compose([ToMode(task.in_chans), Resize(task), *tensor])
    if augment in ("crop", "crop_flip"):
        size = task.image_shape[1:]
        flip = [v2.RandomHorizontalFlip()] if augment == "crop_flip" else []
        crop = [v2.RandomCrop(size, padding=[*reversed(crop_padding(size))]), *flip]
        return v2.Compose([ToMode(task.in_chans), Resize(task), *crop, *tensor])
    heavy = augment == "randaugment"
    timm_transform = create_transform(
        input_size=task.image_shape,
        is_training=True,
        auto_augment="rand-m9-mstd0.5-inc1" if heavy else None,
        color_jitter=0.0,
        re_prob=0.25 if heavy else 0.0,
        interpolation="bicubic",
        mean=task.mean,
        std=task.std,
    )
    return v2.Compose([ToMode(task.in_chans), timm_transform])


class MaskTransform:
    """(PIL image, class index of every pixel) -> (normalized float tensor (C, H, W), int64 tensor (H, W)).

    Both get the same resizing, crop and flip. Images are interpolated bilinearly; masks take the nearest pixel, so that
    interpolation creates no other class.

    Args:
        task: Gives size, channels and normalization.
        augment: ``none`` resizes the whole image to the task's size, as evaluation does. ``crop_flip`` crops 1/4 to
            all of its area, in a shape between 3:4 and 4:3, resizes the crop to that size and flips half of the crops.

    Raises:
        UserError: If ``augment`` is another augmentation, which would change an image but not its mask.
    """

    def __init__(self, task: Task, augment: Augment = "none") -> None:
        if augment not in ("none", "crop_flip"):
            raise UserError(
                f"data.augment: {augment} changes images of {task.name} but not their masks; use crop_flip or none"
            )
        size = task.image_shape[1:]
        bilinear = v2.InterpolationMode.BILINEAR
        crop = [v2.RandomResizedCrop(size, scale=(0.25, 1.0), interpolation=bilinear), v2.RandomHorizontalFlip()]
        geometry = crop if augment == "crop_flip" else [v2.Resize(size, interpolation=bilinear)]
        # v2 treats an untyped tensor beside a mask as the image.
        self.mode = ToMode(task.in_chans)
        self.joint = v2.Compose([*geometry, *to_tensor(task), v2.ToPureTensor()])

    def __call__(self, image: Image.Image, mask: NDArray[np.uint8]) -> tuple[Tensor, Tensor]:
        """Transform both."""
        inputs, targets = self.joint(self.mode(image), tv_tensors.Mask(torch.from_numpy(mask)))
        return inputs, targets.long()
