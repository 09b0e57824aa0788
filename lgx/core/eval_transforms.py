"""Transforms of the images that a network is evaluated on."""

from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2

from lgx.core.task import Task
from lgx.errors import UserError


def to_tensor(task: Task) -> list[Any]:
    """PIL image -> normalized float tensor (C, H, W), as a list of transforms."""
    return [
        v2.PILToTensor(),
        v2.ToDtype(torch.float32, scale=True),
        v2.Normalize(task.mean, task.std),
    ]


def opaque(image: Image.Image) -> Image.Image:
    """Convert an image to the mode L, if it is gray, or RGB.

    Gray of 16 bits is scaled, and what is transparent is shown over white.

    Raises:
        UserError: If the range of its pixel values is unknown.
    """
    if image.mode.startswith("I;16"):
        # Pillow clips 16-bit gray to white instead of scaling it.
        pixels = np.asarray(image)
        hidden = image.info.get("transparency")  # the gray that is transparent
        return Image.fromarray(np.where(pixels == hidden, 255, pixels // 257).astype(np.uint8))
    if image.mode in ("I", "F"):
        raise UserError(f"an image of mode {image.mode} has no known range of values; save it with 8 or 16 bits")
    gray = image.mode in ("1", "L", "LA", "La")
    if image.has_transparency_data:
        # Pillow would show the colors that transparent pixels hide.
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
    mode = "L" if gray else "RGB"
    return image if image.mode == mode else image.convert(mode)


class ToMode:
    """Converts an image to the task's number of channels. A class, because loader processes pickle it."""

    def __init__(self, in_chans: int) -> None:
        self.mode = "L" if in_chans == 1 else "RGB"

    def __call__(self, image: Image.Image | Tensor) -> Image.Image | Tensor:
        """Convert an image, see :func:`opaque`; pixels of several channels stay as they are.

        Raises:
            UserError: If the range of its pixel values is unknown.
        """
        if isinstance(image, Tensor):
            return image
        image = opaque(image)
        return image if image.mode == self.mode else image.convert(self.mode)


class Resize:
    """Resizes an image so that it covers (height, width) and crops the center, unless it has the size already."""

    def __init__(self, size: tuple[int, int]) -> None:
        self.size, bicubic = size, v2.InterpolationMode.BICUBIC
        cover: Any = v2.Resize(size[0], interpolation=bicubic)
        if size[0] != size[1]:  # as timm, whose import takes half a second
            from timm.data.transforms import ResizeKeepRatio

            cover = ResizeKeepRatio(size, interpolation="bicubic")
        self.transform = v2.Compose([cover, v2.CenterCrop(size)])

    def __call__(self, image: Image.Image | Tensor) -> Image.Image | Tensor:
        """Resize an image."""
        size = image.shape[-2:] if isinstance(image, Tensor) else (image.height, image.width)
        resized: Image.Image | Tensor = image if size == self.size else self.transform(image)
        return resized


AS_IN_TIMM: dict[str, Any] = {"crop_pct": 1.0, "crop_mode": "center", "interpolation": "bicubic"}
"""What timm calls :class:`Resize`; every model that is written or returned says so."""


def pixel_transform(task: Task) -> "v2.Compose":
    """PIL image -> pixels, uint8 (C, H, W): resized to cover ``img_size``, center crop."""
    return v2.Compose([ToMode(task.in_chans), Resize(task.image_shape[1:]), v2.PILToTensor()])


def normalized(pixels: Tensor, task: Task) -> Tensor:
    """Normalize pixels, uint8 (..., C, H, W), with the task's mean and std."""
    inputs: Tensor = v2.functional.normalize(
        v2.functional.to_dtype(pixels, torch.float32, scale=True), list(task.mean), list(task.std)
    )
    return inputs


def eval_transform(task: Task) -> "v2.Compose":
    """PIL image -> normalized float tensor (C, H, W): resized to cover ``img_size``, center crop."""
    return v2.Compose([ToMode(task.in_chans), Resize(task.image_shape[1:]), *to_tensor(task)])
