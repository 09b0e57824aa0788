"""Every path that reads an image gives the pixels of reference decoders, for every kind of file, or one sentence."""

import io
import tarfile
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from data_modules import ImageFolderData, MultiLabelFolderData, ShardedData, UnlabeledFolderData
from data_modules.samplers import Batching, TransformedExamples
from data_modules.streaming import ShardBatches
from data_modules.transforms import eval_transform, train_transform
from lgx.architectures import parse_architecture
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.commands.predict import _batches
from lgx.commands.task_examples import TaskReader
from lgx.core.reading import Reading
from lgx.errors import UserError
from tests.support.picture_files import SIZE, bands, photographs

RANGE = (0, 40_000)
PATHS = ("folder", "cache", "augmented", "table", "unlabeled", "shards", "stream", "predict", "embed")
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
        for folder in ("train/a", "train/b", "all", "good"):
            (root / folder).mkdir(parents=True)
        for name, content, _ in files:
            (root / "train/a" / name).write_bytes(content)
        (root / "train/b/first").with_suffix(Path(files[0][0]).suffix).write_bytes(files[0][1])
        rows = [f'"train/a/{name}",{k % 2},1' for k, (name, *_) in enumerate(files)]
        (root / "labels.csv").write_text("\n".join(["file,x,y", *rows]))
        for folder in ("all", "good"):
            for split in ("train", "val"):
                write_shard(root / folder / f"{split}-0.tar", [f for f in files if folder == "all" or f[2] is not None])
        return root, {name: None if seen is None else as_channels(seen, channels) for name, _, seen in files}

    return make


def write_shard(path: Path, files: Iterable[tuple[str, bytes, Any]]) -> None:
    with tarfile.open(path, "w") as tar:
        for k, (name, content, _) in enumerate(files):
            for suffix, data in ((Path(name).suffix, content), (".cls", b"0")):
                if Path(name).suffix in (".png", ".jpg", ".webp"):
                    member = tarfile.TarInfo(f"{k:03d}{suffix}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))


def as_channels(seen: Any, channels: int) -> Any:
    if channels == 1 and seen.shape[-1] == 3:
        seen = np.asarray(Image.fromarray(seen).convert("L"))[..., None]
    return np.broadcast_to(seen, (*SIZE, channels)).transpose(2, 0, 1)


def each(names: Iterable[str], examples: Any) -> Pixels:
    """Pixels of each example, or its sentence."""
    found: Pixels = {}
    for k, name in enumerate(names):
        try:
            found[name] = pixels_of(examples[k] if isinstance(examples, torch.Tensor) else examples[k][0])
        except UserError as error:
            found[name] = str(error)
    return found


def pixels_of(inputs: Any) -> Any:
    return inputs.numpy() if inputs.dtype == torch.uint8 else (inputs * 255).round().byte().numpy()


def embedded(folder: Path, channels: int, values: Any) -> Pixels:
    arch = f"depth=1,embed_dim=8,num_heads=1,patch_size=4,img_size=12x16,in_chans={channels}"
    half, reading = (0.5,) * channels, Reading(tuple(values or ()))
    ancestor = PretrainedNetwork("x", torch.nn.Identity(), parse_architecture(arch), half, half, reading=reading)
    examples = TaskReader(ancestor, "", None, None, None, 9, "files", None).read(str(folder)).examples
    normalized = examples.transform
    examples.transform = lambda image: normalized(image) * 0.5 + 0.5
    return each(sorted(file.name for file in folder.iterdir()), examples)


def read(path: str, root: Path, names: list[str], channels: int, values: Any) -> Pixels:
    """What a path reads of each file."""
    if path == "embed":
        return embedded(root / "train/a", channels, values)
    options: Any = {"img_size": SIZE, "in_chans": channels, "mean": (0.0,) * channels, "std": (1.0,) * channels}
    options |= {"value_range": values, "val_fraction": 0, "cache_gib": float(path == "cache")}
    if path in ("shards", "stream"):
        name = "all" if path == "shards" else "good"
        module: Any = ShardedData(name=name, root=str(root), in_memory=path == "shards", **options)
    elif path == "unlabeled":
        module = UnlabeledFolderData(root=str(root / "train/a"), **options)
    else:
        module = (MultiLabelFolderData if path == "table" else ImageFolderData)(root=str(root), **options)
    module.setup("fit")
    images, task = module.examples("train"), module.task
    images = images.take(np.arange(len(images))) if path == "table" else images
    if path == "stream":
        batches = ShardBatches(images, eval_transform(task), "x", Batching(8), train=False)
        return each(names, torch.cat([batch.inputs for batch in batches]))
    if path == "shards":
        return each(names, TransformedExamples(images, eval_transform(task)))
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
    root, expected = tree(channels, 65535 if values is None else values[1])
    if path in ("shards", "stream"):
        expected = {name: seen for name, seen in expected.items() if Path(name).suffix in (".png", ".jpg", ".webp")}
    if path == "stream":
        expected = {name: seen for name, seen in expected.items() if seen is not None}
    found = read(path, root, [*expected], channels, values)
    for name, seen in expected.items():
        if seen is None or (name == "LZW 16.tif" and find_spec("imagecodecs") is None):
            assert isinstance(found[name], str), name
            assert "\n" not in found[name]
        else:
            np.testing.assert_array_equal(found[name], seen, name)
