"""Image transforms."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import ExifTags, Image

from data_modules import ImageFolderData
from data_modules.images import LabeledImages
from data_modules.segmentation import MaskedImages
from data_modules.shard_index import read_index
from data_modules.shards import ShardImages, write_shards
from data_modules.transforms import MaskTransform
from lgx.core.eval_transforms import eval_transform
from lgx.core.task import Task
from lgx.errors import UserError


def test_sixteen_bit_gray_keeps_its_values():
    values = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    for channels in (1, 3):
        task = Task("x", 2, in_chans=channels, img_size=8, mean=(0.0,) * channels, std=(1.0,) * channels)
        tensor = eval_transform(task)(Image.fromarray(values))
        np.testing.assert_allclose(tensor[0].numpy(), values / 65535, atol=0.01)
    with pytest.raises(UserError, match="mode F"):
        eval_transform(task)(Image.fromarray(values.astype(np.float32)))


def _stored(image: Image.Image, form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, form, **options)
    return buffer.getvalue()


def _noise(*shape: int) -> NDArray[np.uint8]:
    return np.random.default_rng(0).integers(0, 256, shape, np.uint8)


def _over_white(pixels: NDArray[np.uint8], opacity: NDArray[np.uint8]) -> NDArray[np.float64]:
    share = opacity[..., None] / 255
    return pixels * share + 255 * (1 - share)


def _photographs() -> dict[str, tuple[bytes, NDArray[Any]]]:
    """Files of 24 x 16 pixels, and what a browser shows of each, (16, 24, 3)."""
    color, opacity, gray = _noise(16, 24, 3), _noise(16, 24), np.sort(_noise(16, 24), axis=1)
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 6  # turn clockwise to show it
    palette = Image.fromarray(color).quantize(16)
    shown = np.asarray(palette.convert("RGB")).copy()
    shown[np.asarray(palette) == 3] = 255
    wide = (gray.astype(np.uint16) * 257).astype(np.uint16)
    hidden = int(wide[8, 12])
    seen = np.repeat(np.where(wide == hidden, 255, gray)[..., None], 3, 2)
    turned = np.ascontiguousarray(np.rot90(color))
    return {
        "opaque": (_stored(Image.fromarray(color), "png"), color),
        "transparent": (_stored(Image.fromarray(np.dstack([color, opacity])), "png"), _over_white(color, opacity)),
        "transparent gray": (
            _stored(Image.fromarray(np.dstack([gray, opacity]), "LA"), "png"),
            _over_white(np.repeat(gray[..., None], 3, 2), opacity),
        ),
        "transparent palette": (_stored(palette, "png", transparency=3), shown),
        "16 bits": (_stored(Image.fromarray(wide), "png"), np.repeat(gray[..., None], 3, 2)),
        "16 bits, transparent": (_stored(Image.fromarray(wide), "png", transparency=hidden), seen),
        "turned": (_stored(Image.fromarray(turned), "png", exif=exif), color),
        "turned, damaged": (_stored(Image.fromarray(color), "webp", lossless=True, exif=b"Exif\0\0MM\0*"), color),
    }


@pytest.mark.parametrize("kind", _photographs())
def test_every_way_of_reading_shows_a_photograph_as_browsers_do(tmp_path: Path, kind: str) -> None:
    content, shown = _photographs()[kind]
    files = [tmp_path / split / name / "0.png" for split in ("train", "test") for name in ("a", "b")]
    for file in files:
        file.parent.mkdir(parents=True)
        file.write_bytes(content)
    module = ImageFolderData(root=str(tmp_path), img_size=16, val_fraction=0.5, mean=[0, 0, 0], std=[1, 1, 1])
    direct = module.read("test")
    opened = LabeledImages([(Image.open(file), 0) for file in files], np.zeros(4), "opened")
    write_shards(direct, tmp_path / "shards", "test", module.info)
    write_shards(opened, tmp_path / "opened", "test", replace(module.info, name="opened"))
    ways = [direct, opened, *(ShardImages(read_index(tmp_path / name)[1]["test"], "") for name in ("shards", "opened"))]
    for images in ways:
        pixels = eval_transform(module.task)(images[0][0]) * 255
        np.testing.assert_allclose(pixels.permute(1, 2, 0).numpy(), shown[:, 4:20], atol=1.01)


def test_a_mask_stays_on_the_pixels_of_a_turned_image(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[ExifTags.Base.Orientation] = 3
    Image.fromarray(_noise(16, 16, 3)).save(tmp_path / "image.jpg", exif=exif)
    mask = _noise(16, 16) % 2
    Image.fromarray(mask).save(tmp_path / "mask.png")
    image, classes = MaskedImages([(tmp_path / "image.jpg", tmp_path / "mask.png")], {0: 0, 1: 1}, "masked")[0]
    inputs, targets = MaskTransform(Task("x", 2, in_chans=3, img_size=16, mean=(0.0,) * 3, std=(1.0,) * 3))(
        image, classes
    )
    raw = np.asarray(Image.open(tmp_path / "image.jpg"))
    np.testing.assert_allclose(inputs.permute(1, 2, 0).numpy() * 255, raw, atol=0.01)
    assert np.array_equal(targets.numpy(), mask)
