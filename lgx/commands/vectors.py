"""Vectors of images or texts in files, for ``lgx predict --out vectors.npy``."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lgx.artifacts.export.program import ExportedModel
from lgx.commands.predict import read_batches
from lgx.core.eval_transforms import normalized
from lgx.core.progress import tracked
from lgx.errors import UserError
from lgx.host.files import atomic_path


def write_vectors(out: Path, batches: Iterable[Tensor]) -> None:
    """Write the vectors of batches, (B, T) each, float32, as one file (N, T)."""
    vectors = torch.cat([*batches]).numpy()
    with atomic_path(out) as temporary, temporary.open("wb") as file:
        np.save(file, vectors)
    print(f"predicted {out}: {len(vectors):,} vectors of {vectors.shape[1]} numbers")


def vectors_of_images(files: Mapping[str, Path], model: ExportedModel, size: int) -> Iterator[Tensor]:
    """The vectors of images, ``size`` at a time, in the order of their names."""
    ordered = dict(sorted(files.items()))
    for batch in tracked(read_batches(ordered, model.task, size), "predicting", -(-len(files) // size)):
        for name, pixels in batch:
            if isinstance(pixels, str):
                raise UserError(f"{name}: cannot be decoded ({pixels}); remove it, because each row is an image")
        images = [values for _, values in batch if not isinstance(values, str)]
        yield model.logits(normalized(torch.stack(images), model.task))
