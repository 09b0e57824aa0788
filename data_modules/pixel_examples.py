"""Images as batches of pixels, which are augmented together and normalized where the batch is made or used."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from data_modules.pixel_cache import PixelCache
from data_modules.samplers import Key, TransformedExamples, mix_seed, seeded_rng
from data_modules.splits import Indices
from data_modules.transforms import CropFlip
from lgx.core.eval_transforms import pixel_transform
from lgx.core.task import Task

_OWN = 1
"""Part of the seed of a user's transforms, which must not draw the numbers of the crop."""


class PixelExamples(TransformedExamples):
    """Images as pixels, uint8 (C, H, W), with randomness that depends on (seed, epoch, index) alone.

    Args:
        examples: Map-style data set of (PIL image, class index).
        task: Gives size and channels.
        crop: The augmentation; None for none.
        seed: Seed of the augmentation.
        cache: The pixels that were decoded before; None decodes all anew.
        positions: Position in the cache of every example; default their own order.
        own: A further transform of the pixels of each augmented image; None for none.
    """

    def __init__(
        self,
        examples: Any,
        task: Task,
        crop: CropFlip | None = None,
        seed: int = 0,
        cache: PixelCache | None = None,
        positions: Indices | None = None,
        own: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__(examples, pixel_transform(task), seed, random=crop is not None or own is not None)
        self.crop, self.cache, self.positions, self.own = crop, cache, positions, own
        self.shape = (task.in_chans, task.img_size, task.img_size)

    def __getitem__(self, key: int | Key) -> tuple[Tensor, Any]:
        return self.__getitems__([key])[0]

    def __getitems__(self, keys: Sequence[int | Key]) -> list[tuple[Tensor, Any]]:
        """The examples of a batch, which are augmented together."""
        pairs = [(0, key) if isinstance(key, int) else key for key in keys]
        pixels, labels = np.empty((len(pairs), *self.shape), np.uint8), self.examples.labels
        for out, (_, index) in zip(pixels, pairs, strict=True):
            self._read(index, out)
        if self.crop is not None:
            pixels = self.crop(pixels, [mix_seed(self.seed, epoch, index) for epoch, index in pairs])
        images = list(torch.from_numpy(pixels).unbind())
        if self.own is not None:
            for number, (epoch, index) in enumerate(pairs):
                with seeded_rng(mix_seed(self.seed, epoch, index, _OWN)):
                    images[number] = self.own(images[number])
        # One class index, or one entry per label.
        known = [label if np.ndim(label := labels[index]) else int(label) for _, index in pairs]
        return list(zip(images, known, strict=True))

    def _read(self, index: int, out: Any) -> None:
        place = index if self.positions is None else int(self.positions[index])
        if self.cache is not None and self.cache.read(place, out):
            return
        out[...] = self.transform(self.examples[index][0]).numpy()
        if self.cache is not None:
            self.cache.write(place, out)
