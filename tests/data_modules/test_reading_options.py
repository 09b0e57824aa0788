"""The range of values and the way to resize: refused where wrong, and the same in training, tests and predictions."""

import csv
import itertools
import sys
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import Image

from data_modules import VOC12, ImageFolderData, ShardedData
from data_modules.images import ImageFiles
from lgx.artifacts.export.about import task_of
from lgx.artifacts.pretrained import load_pretrained
from lgx.commands.predict import _batches
from lgx.core.eval_transforms import as_in_timm, eval_transform
from lgx.core.reading import Reading
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.host.images import ImageReader
from tests.data_modules.test_readers import write_shard
from tests.support.command_line import lgx
from tests.support.images import CLASSES, draw
from tests.support.picture_files import pil

SHAPE = (20, 12)


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """Class folders of gray images of 12 bits, not square, and shards of the same."""
    root, rng = tmp_path_factory.mktemp("deep") / "deep", np.random.default_rng(0)
    for split, count in (("train", 8), ("test", 3)):
        for label, name in enumerate(CLASSES):
            (root / split / name).mkdir(parents=True)
            for k in range(count):
                pixels = np.asarray(draw(label, rng).convert("L").resize(SHAPE[::-1]), np.uint16) * 16
                (root / split / name / f"{k}.png").write_bytes(pil(pixels, "png"))
    files = [(file.name, file.read_bytes(), 0) for file in sorted(root.glob("train/*/*"))]
    (root / "shards").mkdir()
    for split in ("train", "val"):
        write_shard(root / "shards" / f"{split}-0.tar", files)
    return root


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (None, r"give data\.value_range \[0, 4095\], or \[0, 65535\]"),
        ((0, 1), "give the range of the files"),
        ((0, 65_535), None),
        ((0, 1_000_000), "give the range of the files"),
        ((0, 4095), None),
    ],
)
@pytest.mark.parametrize("in_memory", [None, True, False])
def test_a_range_that_the_files_do_not_use_is_refused(deep, values, words, in_memory):
    options: dict[str, Any] = {"value_range": values, "img_size": 16, "batch_size": 4, "val_fraction": 0}
    module: Any
    if in_memory is None:
        module = ImageFolderData(root=str(deep), **options)
    else:
        module = ShardedData(root=str(deep), name="shards", in_memory=in_memory, **options)
    if words is not None:
        with pytest.raises(UserError, match=words):
            module.setup("fit")
        return
    module.setup("fit")
    levels = next(iter(module.train_dataloader())).inputs.unique()
    assert len(levels) > (100 if values == (0, 4095) else 8)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"value_range": (4095, 0)}, "the smaller one first"),
        ({"value_range": (0, float("inf"))}, "the smaller one first"),
        ({"value_range": (0, 4095)}, "no image of more than 8 bits"),
    ],
)
def test_a_range_without_meaning_is_refused(images, options, words):
    with pytest.raises(UserError, match=words):
        ImageFolderData(root=str(images), img_size=16, **options).setup("fit")


def test_a_run_its_export_and_its_predictions_read_images_alike(deep, tmp_path):
    arch = "--model.arch=depth=1,embed_dim=16,num_heads=1,patch_size=4,img_size=16"
    words = ["--config", "lgx/configs/own_images.yaml", f"--runs_dir={tmp_path}/runs", f"--data.root={deep}", arch]
    words += ["--data.img_size=16", "--data.batch_size=6", "--model.initializer=RandomStart", "--trainer.max_epochs=1"]
    reading = ["--data.value_range=[0, 4095]", "--data.resize=letterbox"]
    done = lgx("fit", *words, *reading, "--test_end=true")
    assert done.code == 0, done.err
    run = tmp_path / "runs/mine/small/seed0"
    checkpoint = next(run.rglob("last.ckpt"))
    test = lgx("test", *words, "--data.value_range=[0, 4095]", f"--ckpt_path={checkpoint}", "--name=other")
    assert "were read with data.resize letterbox" in test.sentence
    found = []
    for out in ("folder", "x.onnx", None):
        model = run if out is None else tmp_path / out
        assert out is None or lgx("export", run, "--out", model).code == 0
        assert lgx("predict", deep / "test", "--model", model, "--out", tmp_path / "p.csv", "--force").code == 0
        with (tmp_path / "p.csv").open(newline="") as file:
            found.append([[row["name"], round(float(row["probability"]), 3)] for row in csv.DictReader(file)])
    assert found[0] == found[1] == found[2]
    start = ["--source", tmp_path / "folder", "--method=pretrained", arch.replace("model.", ""), "--out"]
    assert lgx("init", *start, tmp_path / "again").code == 0
    for folder in ("folder", "again"):
        network = load_pretrained(str(tmp_path / folder))
        assert network.reading == Reading((0, 4095), "letterbox")
        module = ImageFolderData(root=str(deep), value_range=(0, 4095), resize="letterbox", img_size=16)
        assert module.follow_normalization(network.mean, network.std)
        module.setup("test")
        (tested,) = module.test_dataloader()
        files = {str(k): module.examples("test").path(k) for k in range(9)}
        pixels = torch.stack([found for batch in _batches(files, task_of(network), 9) for _, found in batch])
        assert torch.equal(tested.inputs, module.normalize(tested._replace(inputs=pixels)).inputs)


def test_the_cache_keeps_the_pixels_of_each_option_apart(deep, tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_CACHE", str(tmp_path))
    seen = []
    for values, resize, mean in itertools.product([(0, 4095), (0, 9000)], ["crop", "squash", "letterbox"], [0.1, 0.9]):
        options: dict[str, Any] = {"value_range": values, "resize": resize, "mean": (mean,) * 3, "std": (1.0,) * 3}
        for cache_gib in (0, 1, 1):
            module = ImageFolderData(root=str(deep), img_size=16, val_fraction=0, cache_gib=cache_gib, **options)
            module.setup("fit")
            seen.append(module.transformed(module.examples("train"))[0][0])
        assert torch.equal(seen[-3], seen[-2])
        assert torch.equal(seen[-2], seen[-1])
    assert len({pixels.numpy().tobytes() for pixels in seen}) == 8  # only the border shows the mean


def test_masks_are_always_squashed(tmp_path):
    with pytest.raises(UserError, match=r"data\.resize: images with masks are always squashed"):
        VOC12(root=str(tmp_path), resize="letterbox")


@pytest.mark.parametrize("size", [32, (24, 32)])
@pytest.mark.parametrize("resize", ["crop", "squash", "letterbox"])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_each_way_to_resize_is_timms(resize, size, channels, tmp_path):
    rng = np.random.default_rng(0)
    values = rng.integers(0, 256, (40, 60, channels), np.uint8)
    np.save(tmp_path / "x.npy", values)
    task = Task("x", 2, in_chans=channels, img_size=size, mean=(0.25,) * channels, std=(0.5,) * channels, resize=resize)
    ours = eval_transform(task)(ImageReader(channels)(tmp_path / "x.npy"))
    if channels == 5:
        assert ours.shape == task.image_shape
        return
    config = {"input_size": task.image_shape, "mean": task.mean, "std": task.std, **as_in_timm(resize)}
    theirs = timm.data.create_transform(**timm.data.resolve_data_config(config))
    image = Image.fromarray(values.squeeze())
    torch.testing.assert_close(ours, theirs(image))


def test_heic_is_read_with_its_extra_and_named_without(tmp_path, monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8))
    exif = Image.Exif()
    exif[0x0112] = 6
    heif.from_pillow(image).save(tmp_path / "x.heic", exif=exif.tobytes())
    files = ImageFiles(tmp_path, ["x.heic"], [0], "photos train")
    expected = heif.open_heif(tmp_path / "x.heic").to_pillow()
    assert np.array_equal(np.asarray(files[0][0]), np.asarray(expected))
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(UserError, match=r"x\.heic: .*pip install 'lgx\[images\]'"):
        files[0]
