"""Images of 2 to 16 channels, which Pillow's images cannot hold: arrays of numpy, and TIFF files."""

from pathlib import Path

import numpy as np
import torch
from PIL import ImageSequence
from torch import Tensor

from lgx.host.safety import FORMATS, MOST_PIXELS, open_undecoded

MOST_CHANNELS = 16
CHANNEL_SUFFIXES = (".npy", ".tif", ".tiff", ".png", ".webp")


def open_channels(path: Path, channels: int) -> Tensor:
    """Read an image as pixels of 8 bits, uint8 (C, H, W).

    16 bits are scaled to 8, and numbers between 0 and 1 to 255.

    Args:
        path: A ``.npy`` file, (H, W, C) or (C, H, W), or an image whose bands or pages are the channels.
        channels: Their number, C.

    Raises:
        Exception: Any exception of numpy or Pillow for a damaged file, or ValueError for another shape or type.
    """
    if path.suffix.lower() == ".npy":
        values = np.load(path, allow_pickle=False, mmap_mode="r")
    else:
        with open_undecoded(path, (*FORMATS, "TIFF")) as image:
            values = np.concatenate(
                [np.atleast_3d(np.asarray(page)) for page in ImageSequence.Iterator(image)], axis=-1
            )
    if values.ndim != 3 or channels not in (values.shape[0], values.shape[-1]) or values.size > channels * MOST_PIXELS:
        raise ValueError(f"an array of shape {values.shape}; expected {channels} channels, see data.in_chans")
    values = values if values.shape[0] == channels else np.moveaxis(values, -1, 0)
    if max(values.shape[1:]) > 100 * min(values.shape[1:]):
        raise ValueError(f"{values.shape[2]} x {values.shape[1]} pixels; one side is more than 100 times the other")
    if values.dtype == np.uint16:
        values = values // 257
    elif np.issubdtype(values.dtype, np.floating) and 0 <= values.min() and values.max() <= 1:
        values = np.rint(values * 255)
    elif values.dtype != np.uint8:
        raise ValueError(f"{values.dtype} has no known range; save 8 or 16 bits, or numbers between 0 and 1")
    return torch.from_numpy(np.array(values, np.uint8, order="C"))
