"""Transforms of the images that a network is evaluated on, and of their normalization."""

from collections.abc import Mapping
from typing import Any

import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2

from lgx.core.task import ResizeMode, Task
from lgx.host.images import opaque


def to_tensor(task: Task) -> list[Any]:
    """PIL image -> normalized float tensor (C, H, W), as a list of transforms."""
    return [v2.PILToTensor(), v2.ToDtype(torch.float32, scale=True), v2.Normalize(task.mean, task.std)]


class ToMode:
    """Converts an image to the task's number of channels. A class, because loader processes pickle it."""

    def __init__(self, in_chans: int) -> None:
        self.mode = "L" if in_chans == 1 else "RGB"

    def __call__(self, image: Image.Image | Tensor) -> Image.Image | Tensor:
        """Convert an image, see :func:`opaque`; pixels of several channels stay as they are."""
        if isinstance(image, Tensor):
            return image
        image = opaque(image)
        return image if image.mode == self.mode else image.convert(self.mode)


class Resize:
    """Resizes images as a task says, unless they have its size; letterboxes as timm's ``border``.

    Args:
        task: Gives size and way, and the mean, which is the color around letterboxed images.
    """

    def __init__(self, task: Task) -> None:
        self.size = task.image_shape[1:]
        bicubic = v2.InterpolationMode.BICUBIC
        self.fill = [round(255 * min(max(mean, 0), 1)) for mean in task.mean] if task.resize == "letterbox" else None
        if task.resize == "squash":
            self.transform: Any = v2.Resize(self.size, interpolation=bicubic)
        elif task.resize == "crop" and self.size[0] == self.size[1]:
            self.transform = v2.Resize(self.size[0], interpolation=bicubic)
        else:  # as timm, whose import takes half a second
            from timm.data.transforms import ResizeKeepRatio

            self.transform = ResizeKeepRatio(self.size, float(task.resize == "letterbox"), "bicubic")

    def __call__(self, image: Image.Image | Tensor) -> Image.Image | Tensor:
        """Resize an image."""
        if _size_of_image(image) == self.size:
            return image
        resized = self.transform(image)
        if self.fill is not None:
            height, width = self.size
            high, wide = _size_of_image(resized)
            above = max(0, (height - high) // 2)
            before = max(0, (width - wide) // 2)
            rest = max(0, width - wide - before), max(0, height - high - above)
            resized = v2.functional.pad(resized, [before, above, *rest], fill=self.fill)
        result: Image.Image | Tensor = v2.functional.center_crop(resized, list(self.size))
        return result


def _size_of_image(image: Image.Image | Tensor) -> tuple[int, ...]:
    return tuple(image.shape[-2:]) if isinstance(image, Tensor) else (image.height, image.width)


def as_in_timm(resize: ResizeMode) -> dict[str, Any]:
    """Words of timm for :class:`Resize`, for the configuration of every written or returned model."""
    return {"crop_pct": 1.0, "crop_mode": _CROP_MODES[resize], "interpolation": "bicubic"}


def resize_of_timm(config: Mapping[str, Any]) -> ResizeMode:
    """The way of resizing in a timm model's configuration, the inverse of :func:`as_in_timm`."""
    return next((ours for ours, theirs in _CROP_MODES.items() if theirs == config.get("crop_mode")), "crop")


_CROP_MODES: dict[ResizeMode, str] = {"crop": "center", "squash": "squash", "letterbox": "border"}


def pixel_transform(task: Task) -> "v2.Compose":
    """PIL image -> pixels, uint8 (C, H, W), of the task's size."""
    return v2.Compose([ToMode(task.in_chans), Resize(task), v2.PILToTensor()])


def normalized(pixels: Tensor, task: Task) -> Tensor:
    """Normalize pixels, uint8 (..., C, H, W), with the task's mean and std."""
    inputs: Tensor = v2.functional.normalize(
        v2.functional.to_dtype(pixels, torch.float32, scale=True), list(task.mean), list(task.std)
    )
    return inputs


def renormalize(inputs: Tensor, task: Task, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Convert inputs that are normalized for a task to another mean and standard deviation.

    Args:
        inputs: Images, (B, C, H, W), or token ids, (B, N), which are never normalized.
        task: The task whose ``mean`` and ``std`` the inputs are normalized with.
        mean: Wanted mean, C values, in units of pixel value / 255.
        std: Wanted standard deviation, C values, in the same units.

    Returns:
        (B, C, H, W); the same tensor if nothing changes.
    """
    if task.reads_text or (mean, std) == (task.mean, task.std):
        return inputs
    old_mean, old_std, new_mean, new_std = (
        inputs.new_tensor(values).view(1, -1, 1, 1) for values in (task.mean, task.std, mean, std)
    )
    return (inputs * old_std + old_mean - new_mean) / new_std


def eval_transform(task: Task) -> "v2.Compose":
    """PIL image -> normalized float tensor (C, H, W) of the task's size."""
    return v2.Compose([ToMode(task.in_chans), Resize(task), *to_tensor(task)])
