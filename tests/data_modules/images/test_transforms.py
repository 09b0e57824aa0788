"""Image transforms."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import ExifTags, Image

from data_modules.images.examples import LabeledImages
from data_modules.images.transforms import MaskTransform
from data_modules.sets.segmentation import MaskedImages
from data_modules.shards.index import read_index
from data_modules.shards.reading import ShardImages
from data_modules.shards.writing import write_shards
from lgx.core.eval_transforms import eval_transform
from lgx.core.task import Task
from lgx.errors import UserError
from tests.support.fake_data import TOY
from tests.support.picture_files import SIZE, photographs


def test_images_that_were_opened_before_show_in_shards_what_their_files_show(tmp_path: Path) -> None:
    """As the sets of torchvision give them; ``test_readers.py`` compares all paths that read files."""
    photos = [photo for photo in photographs(np.random.default_rng(0)) if photo[0].endswith((".png", ".jpg", ".webp"))]
    known = [(name, Image.open(io.BytesIO(content)), seen) for name, content, seen in photos if seen is not None]
    opened = LabeledImages([(image, 0) for _, image, _ in known], np.zeros(len(known)), "opened")
    write_shards(opened, tmp_path, "test", TOY)
    task = Task("x", 2, img_size=SIZE, mean=(0.0,) * 3, std=(1.0,) * 3)
    for images in (opened, ShardImages(read_index(tmp_path)[1]["test"], "")):
        for k, (name, _, seen) in enumerate(known):
            shown = eval_transform(task)(images[k][0]).permute(1, 2, 0).numpy() * 255
            np.testing.assert_allclose(shown, np.broadcast_to(seen, shown.shape), atol=2.01, err_msg=name)
    with pytest.raises(UserError, match="mode F"):
        eval_transform(task)(Image.fromarray(np.zeros(SIZE, np.float32)))


def test_a_mask_stays_on_the_pixels_of_a_turned_image(tmp_path: Path) -> None:
    rng, exif = np.random.default_rng(0), Image.Exif()
    exif[ExifTags.Base.Orientation] = 3
    Image.fromarray(rng.integers(0, 256, (16, 16, 3), np.uint8)).save(tmp_path / "image.jpg", exif=exif)
    mask = rng.integers(0, 2, (16, 16), np.uint8)
    Image.fromarray(mask).save(tmp_path / "mask.png")
    image, classes = MaskedImages([(tmp_path / "image.jpg", tmp_path / "mask.png")], {0: 0, 1: 1}, "masked")[0]
    inputs, targets = MaskTransform(Task("x", 2, in_chans=3, img_size=16, mean=(0.0,) * 3, std=(1.0,) * 3))(
        image, classes
    )
    raw = np.asarray(Image.open(tmp_path / "image.jpg"))
    np.testing.assert_allclose(inputs.permute(1, 2, 0).numpy() * 255, raw, atol=0.01)
    assert np.array_equal(targets.numpy(), mask)
