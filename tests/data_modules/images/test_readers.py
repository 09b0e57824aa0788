"""Every path that reads an image gives the pixels of reference decoders, for every kind of file, or one sentence."""

import csv
import itertools
import sys
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
from PIL import ExifTags, Image

from data_modules import VOC12, ImageFolderData, MultiLabelFolderData, ShardedData, UnlabeledFolderData
from data_modules.images.examples import ImageFiles
from data_modules.images.transforms import MaskTransform, train_transform
from data_modules.loading.samplers import TransformedExamples
from data_modules.own_images import base
from data_modules.sets.segmentation import MaskedImages
from lgx.artifacts.export.program import task_of
from lgx.artifacts.pretrained import load_pretrained
from lgx.commands.predict import _batches
from lgx.core.eval_transforms import as_in_timm, eval_transform, normalized
from lgx.core.task import Reading, Task
from lgx.errors import UserError
from lgx.host.images import ImageReader
from tests.support.command_line import lgx
from tests.support.extras import need_onnx
from tests.support.images import write_images
from tests.support.picture_files import SIZE, bands, exif, photographs, pil, tar

RANGE, IN_SHARDS = (0, 40_000), (".png", ".jpg", ".webp")
PATHS = ("folder", "cache", "augmented", "table", "unlabeled", "shards", "stream", "predict")
CASES = [
    *((channels, values, path) for channels, values in ((3, None), (3, RANGE), (1, None)) for path in PATHS),
    *((channels, None, path) for channels in (2, 4, 13) for path in ("folder", "cache", "augmented", "predict")),
]
Pixels = dict[str, Any]
"""Name of a file -> pixels, uint8 (C, H, W), or the sentence that refuses it, or None."""


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """Makes, once for each form of the images, class folders, a table and shards; gives what is to be shown."""

    @cache
    def make(channels: int, high: int) -> tuple[Path, Pixels]:
        root, rng = tmp_path_factory.mktemp("readers"), np.random.default_rng(0)
        files = [*(photographs(rng, high) if channels in (1, 3) else bands(rng, channels))]
        for folder in ("train/a", "train/b"):
            (root / folder).mkdir(parents=True)
        for name, content, _ in files:
            (root / "train/a" / name).write_bytes(content)
        (root / "train/b/first").with_suffix(Path(files[0][0]).suffix).write_bytes(files[0][1])
        rows = [f'"train/a/{name}",{k % 2},1' for k, (name, *_) in enumerate(files)]
        (root / "labels.csv").write_text("\n".join(["file,x,y", *rows]))
        write_tars(root / "all", [file[:2] for file in files])
        write_tars(root / "good", [file[:2] for file in files if file[2] is not None])
        return root, {name: None if seen is None else as_channels(seen, channels) for name, _, seen in files}

    return make


def write_tars(folder: Path, files: Iterable[tuple[str, bytes]]) -> None:
    of_shards = [(f"{k:03d}", name, data) for k, (name, data) in enumerate(files) if name.endswith(IN_SHARDS)]
    members = [[(key + Path(name).suffix, data), (f"{key}.cls", b"0")] for key, name, data in of_shards]
    folder.mkdir()
    for split in ("train", "val"):
        (folder / f"{split}-0.tar").write_bytes(tar(itertools.chain(*members)))


def as_channels(seen: Any, channels: int) -> Any:
    if channels == 1 and seen.shape[-1] == 3:
        seen = np.asarray(Image.fromarray(seen).convert("L"))[..., None]
    return np.broadcast_to(seen, (*SIZE, channels)).transpose(2, 0, 1)


def each(names: Iterable[str], examples: Any) -> Pixels:
    """Pixels of each example, or its sentence."""
    found: Pixels = {}
    for k, name in enumerate(names):
        try:
            inputs = examples[k][0]
            found[name] = inputs.numpy() if inputs.dtype == torch.uint8 else (inputs * 255).round().byte().numpy()
        except UserError as error:
            found[name] = str(error)
    return found


def read(path: str, root: Path, names: list[str], channels: int, values: Any) -> Pixels:
    """What a path reads of each file."""
    options: Any = {"img_size": SIZE, "in_chans": channels, "mean": (0.0,) * channels, "std": (1.0,) * channels}
    options |= {"value_range": values, "val_fraction": 0, "cache_gib": float(path == "cache")}
    own = {"shards": {"name": "all", "in_memory": True}, "stream": {"name": "good", "in_memory": False}}.get(path, {})
    kinds = dict.fromkeys(("shards", "stream"), ShardedData) | {"table": MultiLabelFolderData}
    folder = root / "train/a" if path == "unlabeled" else root
    kind: Any = UnlabeledFolderData if path == "unlabeled" else kinds.get(path, ImageFolderData)
    module = kind(root=str(folder), **own, **options)
    module.setup("fit")
    images, task = module.examples("train"), module.task
    if path in ("shards", "stream"):
        return each(names, TransformedExamples(images, eval_transform(task)))
    images = images.take(np.arange(len(images))) if path == "table" else images
    files = {images.path(k).name: images.path(k) for k in range(len(images))}
    if path == "predict":
        return {name: found for batch in _batches(files, task, 9) for name, found in batch}
    if path == "augmented":
        return each(files, TransformedExamples(images, train_transform(task, "none")))
    examples = module.transformed(images)
    each(files, examples)  # a second time from the cache
    return each(files, examples)


@pytest.mark.parametrize(("channels", "values", "path"), CASES)
def test_every_path_shows_every_kind_of_file_as_reference_decoders(tree, channels, values, path, tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_CACHE", str(tmp_path))
    monkeypatch.setattr(base, "_CHECKED", 0)  # one file is damaged
    root, expected = tree(channels, 65535 if values is None else values[1])
    if path in ("shards", "stream"):
        expected = {name: seen for name, seen in expected.items() if name.endswith(IN_SHARDS)}
    if path == "stream":
        expected = {name: seen for name, seen in expected.items() if seen is not None}
    found = read(path, root, [*expected], channels, values)
    for name, seen in expected.items():
        if seen is None or (name == "LZW 16.tif" and find_spec("imagecodecs") is None):
            assert isinstance(found[name], str), name
            assert "\n" not in found[name]
        else:
            np.testing.assert_array_equal(found[name], seen, name)


@pytest.fixture(scope="module")
def deep(tmp_path_factory):
    """Class folders of gray images of 12 bits, not square, and shards of the same."""
    root = write_images(tmp_path_factory.mktemp("deep") / "deep", {"train": 24, "test": 9})
    for file in root.glob("*/*/*"):
        pixels = np.asarray(Image.open(file).convert("L").resize((12, 20)), np.uint16) * 16
        file.write_bytes(pil(pixels, "png"))
    write_tars(root / "shards", [(file.name, file.read_bytes()) for file in sorted(root.glob("train/*/*"))])
    return root


def module_of(root, in_memory=None, **options):
    """A module of class folders, or of shards."""
    kind, own = (
        (ImageFolderData, {}) if in_memory is None else (ShardedData, {"name": "shards", "in_memory": in_memory})
    )
    return kind(**{"root": str(root), "img_size": 16, "batch_size": 4, "val_fraction": 0}, **own, **options)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (None, r"give data\.value_range \[0, 4095\], or \[0, 65535\]"),
        ((0, 1), "give the range of the files"),
        ((0, 1_000_000), "give the range of the files"),
        ((4095, 0), "the smaller one first"),
        ((0, float("inf")), "the smaller one first"),
    ],
)
@pytest.mark.parametrize("in_memory", [None, True, False])
def test_a_range_that_the_files_do_not_use_is_refused(deep, values, words, in_memory):
    with pytest.raises(UserError, match=words):
        module_of(deep, in_memory, value_range=values).setup("fit")


def test_files_of_12_bits_among_files_of_16_are_reported(deep, tmp_path):
    sources = sorted(deep.glob("train/*/*"))[:8]
    assert ImageReader(value_range=()).check_values("deep", sources)[1]
    sources[-1:] = [tmp_path / "whole.png"]
    sources[-1].write_bytes(pil(np.full((12, 20), 65_000, np.uint16), "png"))
    line, wrong = ImageReader().check_values("deep", sources)
    assert not wrong
    assert "7 of 8 files have no value above 4,095" in line


def test_a_range_may_be_wide_but_not_of_8_bits(deep, images):
    module_of(deep, value_range=(0, 65_535)).setup("fit")
    with pytest.raises(UserError, match="applies to images of more than 8 bits"):
        module_of(images, value_range=(0, 4095)).setup("fit")


def test_a_run_its_export_and_its_predictions_read_images_alike(deep, tmp_path):
    need_onnx()
    arch = "--model.arch=depth=1,embed_dim=16,num_heads=1,patch_size=4,img_size=16"
    words = ["--config", "lgx/configs/own_images.yaml", f"--runs_dir={tmp_path}/runs", f"--data.root={deep}", arch]
    words += ["--data.img_size=16", "--data.batch_size=6", "--model.initializer=RandomStart", "--trainer.max_epochs=1"]
    words += ["--data.value_range=[0, 4095]"]
    done = lgx("fit", *words, "--data.resize=letterbox", "--test_end=true")
    assert done.code == 0, done.err
    run = tmp_path / "runs/mine/small/seed0"
    test = lgx("test", *words, f"--ckpt_path={next(run.rglob('last.ckpt'))}", "--name=other")
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
        module = module_of(deep, value_range=(0, 4095), resize="letterbox")
        assert module.follow_normalization(network.mean, network.std)
        module.setup("test")
        tested = torch.cat([batch.inputs for batch in module.test_dataloader()])
        files = {str(k): module.examples("test").path(k) for k in range(9)}
        pixels = torch.stack([found for batch in _batches(files, task_of(network), 9) for _, found in batch])
        assert torch.equal(tested, normalized(pixels, module.task))


def test_the_cache_keeps_the_pixels_of_each_option_apart(deep, tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_CACHE", str(tmp_path))
    seen = set()
    for high, resize, mean in itertools.product([4095, 9000], ["crop", "squash", "letterbox"], [0.1, 0.9]):
        found = []
        for cache_gib in (0, 1, 1):
            options = {"cache_gib": cache_gib, "mean": (mean,) * 3, "std": (1.0,) * 3}
            module = module_of(deep, value_range=(0, high), resize=resize, **options)
            module.setup("fit")
            found.append(module.transformed(module.examples("train"))[0][0].numpy().tobytes())
        assert found[0] == found[1] == found[2]
        seen.add(found[0])
    assert len(seen) == 8  # only the border shows the mean


def test_masks_are_always_squashed(tmp_path):
    with pytest.raises(UserError, match=r"data\.resize: images with masks are always squashed"):
        VOC12(root=str(tmp_path), resize="letterbox")


@pytest.mark.parametrize("size", [32, (24, 40)])
@pytest.mark.parametrize("resize", ["crop", "squash", "letterbox"])
@pytest.mark.parametrize("channels", [1, 3, 5])
def test_each_way_to_resize_is_timms(resize, size, channels):
    mean, std = (0.4, 0.5, 0.6, 0.5, 0.4)[:channels], (0.2, 0.3, 0.25, 0.3, 0.2)[:channels]
    task = Task("x", 2, in_chans=channels, img_size=size, mean=mean, std=std, resize=resize)
    transform, rng = eval_transform(task), np.random.default_rng(0)
    for sides in ((40, 60), (30, 30), (100, 20), (41, 77)):
        values = rng.integers(0, 256, (*sides, channels), np.uint8)
        if channels == 5:
            assert transform(torch.from_numpy(values).movedim(-1, 0)).shape == task.image_shape
            continue
        image, config = Image.fromarray(values.squeeze()), {"input_size": task.image_shape, "mean": mean, "std": std}
        theirs = timm.data.create_transform(**timm.data.resolve_data_config(config | as_in_timm(resize)))
        torch.testing.assert_close(transform(image), theirs(image))


def test_heic_is_read_with_its_extra_and_named_without(tmp_path, monkeypatch):
    heif = pytest.importorskip("pillow_heif")
    image = Image.fromarray(np.random.default_rng(0).integers(0, 256, (12, 16, 3), np.uint8))
    heif.from_pillow(image).save(tmp_path / "x.heic", exif=exif(6).tobytes())
    files = ImageFiles(tmp_path, ["x.heic"], [0], "photos train")
    expected = heif.open_heif(tmp_path / "x.heic").to_pillow()
    assert np.array_equal(np.asarray(files[0][0]), np.asarray(expected))
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(UserError, match=r"x\.heic: .*pip install 'lgx\[images\]'"):
        files[0]


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
