"""Image transforms, alone or together with masks, from timm's and torchvision's factories."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from timm.data.transforms_factory import create_transform
from torch import Tensor
from torchvision import tv_tensors
from torchvision.transforms import v2

from lgx.core.task import Task
from lgx.errors import UserError

Augment = Literal["none", "crop", "crop_flip", "resized_crop", "randaugment"]


def _to_tensor(task: Task) -> list[Any]:
    return [
        v2.PILToTensor(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(task.mean, task.std),
    ]


class _Mode:
    """Converts an image to the task's number of channels. A class, because loader processes pickle it."""

    def __init__(self, in_chans: int) -> None:
        self.mode = "L" if in_chans == 1 else "RGB"

    def __call__(self, image: Image.Image) -> Image.Image:
        if image.mode.startswith("I;16"):
            # Pillow clips 16-bit gray to white instead of scaling it.
            image = Image.fromarray((np.asarray(image) // 257).astype(np.uint8))
        elif image.mode in ("I", "F"):
            raise UserError(f"an image of mode {image.mode} has no known range of values; save it with 8 or 16 bits")
        return image if image.mode == self.mode else image.convert(self.mode)


class _Resize:
    """Resizes the short side and crops the center, unless the image has the size already."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.transform = v2.Compose([v2.Resize(size, interpolation=v2.InterpolationMode.BICUBIC), v2.CenterCrop(size)])

    def __call__(self, image: Image.Image) -> Image.Image:
        resized: Image.Image = image if image.size == (self.size, self.size) else self.transform(image)
        return resized


def pixel_transform(task: Task) -> "v2.Compose":
    """PIL image -> pixels, uint8 (C, H, W): short side to ``img_size``, center crop."""
    return v2.Compose([_Mode(task.in_chans), _Resize(task.img_size), v2.PILToTensor()])


def normalized(pixels: Tensor, task: Task) -> Tensor:
    """Normalize pixels, uint8 (..., C, H, W), with the task's mean and std."""
    inputs: Tensor = v2.functional.normalize(
        v2.functional.to_dtype(pixels, torch.float32, scale=True), list(task.mean), list(task.std)
    )
    return inputs


class CropFlip:
    """The augmentations ``crop`` and ``crop_flip`` of a batch of pixels: each image has its own crop and flip.

    It gives the same images as :func:`train_transform`, which treats them one by one.

    Args:
        img_size: Height and width, pixels.
        flips: Whether half of the images are flipped.
    """

    def __init__(self, img_size: int, flips: bool = True) -> None:
        self.img_size, self.padding, self.flips = img_size, crop_padding(img_size), flips

    def __call__(self, pixels: NDArray[np.uint8], seeds: Sequence[int]) -> NDArray[np.uint8]:
        """Crop and flip.

        Args:
            pixels: (B, C, H, W).
            seeds: Seed of each image.

        Returns:
            A new array, (B, C, H, W).
        """
        size, padding, generator = self.img_size, self.padding, torch.Generator()
        padded = np.pad(pixels, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
        result = np.empty_like(pixels)
        for image, source, seed in zip(result, padded, seeds, strict=True):
            generator.manual_seed(seed)
            top, left = (int(torch.randint(0, 2 * padding + 1, (), generator=generator)) for _ in range(2))
            crop = source[:, top : top + size, left : left + size]
            flipped = self.flips and torch.rand(1, generator=generator) < 0.5
            image[...] = crop[..., ::-1] if flipped else crop
        return result


def crop_padding(img_size: int) -> int:
    """Pixels by which ``crop`` and ``crop_flip`` pad each side: an eighth of the image."""
    return max(1, img_size // 8)


def eval_transform(task: Task) -> "v2.Compose":
    """PIL image -> normalized float tensor (C, H, W): short side to ``img_size``, center crop."""
    return v2.Compose([_Mode(task.in_chans), _Resize(task.img_size), *_to_tensor(task)])


def train_transform(task: Task, augment: Augment, own: Callable[[Tensor], Tensor] | None = None) -> "v2.Compose":
    """PIL image -> normalized float tensor (C, H, W) with the chosen augmentation.

    ``crop`` pads by an eighth and crops at random, as usual for small images, and ``crop_flip`` also flips.
    ``resized_crop`` is timm's training transform, a crop of 8 % to all of the area and a flip. ``randaugment`` adds
    DeiT's ``rand-m9-mstd0.5-inc1`` and random erasing 0.25.

    Args:
        task: Gives size, channels and normalization.
        augment: The augmentation.
        own: A further transform of its result, pixels, uint8 (C, H, W), before they are normalized and erased.
    """
    to_tensor = _to_tensor(task) if own is None else [v2.PILToTensor(), own, *_to_tensor(task)[1:]]
    if augment == "none":
        return v2.Compose([_Mode(task.in_chans), _Resize(task.img_size), *to_tensor])
    if augment in ("crop", "crop_flip"):
        size = task.img_size
        flip = [v2.RandomHorizontalFlip()] if augment == "crop_flip" else []
        crop = [v2.RandomCrop(size, padding=crop_padding(size)), *flip]
        return v2.Compose([_Mode(task.in_chans), _Resize(size), *crop, *to_tensor])
    heavy = augment == "randaugment"
    timm_transform = create_transform(
        input_size=(task.in_chans, task.img_size, task.img_size),
        is_training=True,
        auto_augment="rand-m9-mstd0.5-inc1" if heavy else None,
        color_jitter=0.0,
        re_prob=0.25 if heavy else 0.0,
        interpolation="bicubic",
        mean=task.mean,
        std=task.std,
        separate=own is not None,
    )
    if own is None:
        return v2.Compose([_Mode(task.in_chans), timm_transform])
    crop_and_flip, operations, normalize_and_erase = timm_transform
    pixels = [v2.PILToTensor(), own, v2.ToDtype(torch.float32, scale=True)]
    return v2.Compose([_Mode(task.in_chans), crop_and_flip, operations, *pixels, normalize_and_erase])


class MaskTransform:
    """(PIL image, class index of every pixel) -> (normalized float tensor (C, H, W), int64 tensor (H, W)).

    Both get the same resizing, crop and flip. Images are interpolated bilinearly; masks take the nearest pixel, so that
    interpolation creates no other class.

    Args:
        task: Gives size, channels and normalization.
        augment: ``none`` resizes the whole image to the square, as evaluation does. ``crop_flip`` crops 1/4 to all of
            its area, in a shape between 3:4 and 4:3, resizes the crop to the square and flips half of the crops.

    Raises:
        UserError: If ``augment`` is another one, whose operations change an image but not its mask.
    """

    def __init__(self, task: Task, augment: Augment = "none") -> None:
        if augment not in ("none", "crop_flip"):
            raise UserError(
                f"data.augment: {augment} changes images of {task.name} but not their masks; use crop_flip or none"
            )
        size, bilinear = (task.img_size, task.img_size), v2.InterpolationMode.BILINEAR
        crop = [v2.RandomResizedCrop(size, scale=(0.25, 1.0), interpolation=bilinear), v2.RandomHorizontalFlip()]
        geometry = crop if augment == "crop_flip" else [v2.Resize(size, interpolation=bilinear)]
        # v2 treats an untyped tensor beside a mask as the image.
        self.mode, self.joint = _Mode(task.in_chans), v2.Compose([*geometry, *_to_tensor(task), v2.ToPureTensor()])

    def __call__(self, image: Image.Image, mask: NDArray[np.uint8]) -> tuple[Tensor, Tensor]:
        """Transform both."""
        inputs, targets = self.joint(self.mode(image), tv_tensors.Mask(torch.from_numpy(mask)))
        return inputs, targets.long()
