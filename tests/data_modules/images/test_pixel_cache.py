"""Pixels that are decoded once: the same tensors as decoding each time, whatever happens to the file."""

import itertools
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from data_modules import DTD, ImageFolderData, ShardedData
from data_modules.base import Split
from data_modules.images.examples import ImageFiles, Images
from data_modules.images.module import ImageDataModule
from data_modules.images.pixel_cache import PixelCache
from data_modules.images.transforms import Augment, CropFlip, train_transform
from data_modules.loading.samplers import mix_seed
from data_modules.shards.writing import write_shards
from lgx.core.eval_transforms import normalized
from lgx.core.seed import seeded_rng
from lgx.core.task import Task
from lgx.host import cache
from tests.support import fake_data


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LGX_CACHE", str(tmp_path / "cache"))


def opened(images: Path, **options: object) -> ImageFolderData:
    given = {"img_size": 24, "batch_size": 8, "augment": "crop_flip", **options}
    module = ImageFolderData(root=str(images), **given)  # type: ignore[arg-type]
    module.setup("fit")
    module.setup("test")
    return module


def epochs(module: ImageFolderData, count: int = 2) -> list[Tensor]:
    """All tensors of the training batches of some epochs, and of validation and test."""
    found = []
    loader = module.train_dataloader()
    for epoch in range(count):
        loader.batch_sampler.set_epoch(epoch)  # type: ignore[attr-defined]
        found += [part for batch in loader for part in (batch.inputs, batch.targets)]  # type: ignore[attr-defined]
    for evaluation in (module.val_dataloader(), module.test_dataloader()):
        found += [part for batch in evaluation for part in (batch.inputs, batch.targets)]
    return found


def same(left: list[Tensor], right: list[Tensor]) -> bool:
    return len(left) == len(right) and all(map(torch.equal, left, right))


def caches() -> list[Path]:
    return sorted((cache.cache_root() / "pixels").glob("*"))


@pytest.fixture
def no_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every image that is decoded from now on fail the test."""

    def refuse(self: ImageFiles, index: int) -> None:
        raise AssertionError(f"{self.path(index)} was decoded")

    monkeypatch.setattr(ImageFiles, "__getitem__", refuse)


@pytest.mark.parametrize("augment", ["none", "crop_flip"])
def test_kept_pixels_give_the_tensors_of_decoding_each_time(images, augment, request) -> None:
    plain = epochs(opened(images, augment=augment, cache_gib=0))
    assert not caches()
    assert same(plain, epochs(opened(images, augment=augment)))
    assert len(caches()) == 3  # train, val, test
    request.getfixturevalue("no_decoding")
    assert same(plain, epochs(opened(images, augment=augment)))
    assert same(plain, epochs(opened(images, augment=augment, num_workers=2)))


@pytest.mark.parametrize("augment", ["crop", "crop_flip"])
def test_the_batch_is_augmented_as_torchvision_augments_each_image(augment: Augment) -> None:
    task = Task("x", 2, in_chans=3, img_size=(24, 40), mean=(0.4, 0.5, 0.6), std=(0.2, 0.3, 0.25))
    rng = np.random.default_rng(0)
    pictures = [Image.fromarray(rng.integers(0, 256, (24, 40, 3), np.uint8)) for _ in range(40)]
    seeds = [mix_seed(3, 1, k) for k in range(40)]
    one_by_one = []
    for picture, seed in zip(pictures, seeds, strict=True):
        with seeded_rng(seed):
            one_by_one.append(train_transform(task, augment)(picture))
    crop = CropFlip((24, 40), flips=augment == "crop_flip")
    pixels = crop(np.stack([np.asarray(picture).transpose(2, 0, 1) for picture in pictures]), seeds)
    assert torch.equal(normalized(torch.from_numpy(pixels), task), torch.stack(one_by_one))


@pytest.mark.parametrize("damage", ["zeros", "noise", "short", "empty"])
def test_a_damaged_file_is_decoded_again(images: Path, damage: str) -> None:
    plain = epochs(opened(images, cache_gib=0))
    epochs(opened(images))
    for path in caches():
        size = path.stat().st_size
        content = {"zeros": bytes(size), "noise": os.urandom(size), "short": bytes(size // 2), "empty": b""}[damage]
        path.write_bytes(content)
    assert same(plain, epochs(opened(images)))
    assert same(plain, epochs(opened(images)))


def test_without_a_place_for_the_file_images_are_decoded_each_time(fit, images, tmp_path, monkeypatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("LGX_CACHE", str(blocked))
    result = fit("Ancestor", "--trainer.max_epochs=2")
    assert result.code == 0, result.err
    assert "shapes train: images are decoded in each epoch" in result.out
    monkeypatch.setenv("LGX_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(cache.shutil, "disk_usage", lambda folder: SimpleNamespace(free=1))
    result = fit("Ancestor", "--trainer.max_epochs=2", "--name=full")
    assert "more than half of the free space" in result.out


def test_the_least_used_caches_make_room(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kept(marker: bytes) -> PixelCache:
        pixels = PixelCache(10, (3, 8, 8), [marker])
        assert pixels.open() == ""
        return pixels

    monkeypatch.setattr(cache, "_MOST", 3 * kept(b"0").num_bytes)
    os.utime(kept(b"1").path, (1, 1))
    os.utime(kept(b"0").path, (2, 2))
    kept(b"2")
    kept(b"3")
    assert {path.name for path in caches()} == {PixelCache(10, (3, 8, 8), [m]).path.name for m in (b"0", b"2", b"3")}


def test_pixels_that_a_gpu_normalizes_become_the_same_inputs(images: Path) -> None:
    module = opened(images)
    examples = module.transformed(module.examples("train")).__getitems__([0, 1])
    assert examples[0][0].dtype == torch.uint8
    inputs = module.collate(examples)

    class OnGpu:
        class strategy:
            root_device = torch.device("cuda")

    module.trainer = OnGpu()  # type: ignore[assignment]
    moved = module.collate(examples)
    assert moved.inputs.dtype == torch.uint8
    assert torch.equal(module.on_after_batch_transfer(moved, 0).inputs, inputs.inputs)


@pytest.mark.parametrize("stored", ["in files", "in shards"])
def test_splits_of_the_same_size_have_their_own_pixels(tmp_path, monkeypatch, stored: str) -> None:
    fake_data.dtd(tmp_path, monkeypatch)  # six images in each split

    def read(cache_gib: float) -> list[Tensor]:
        module: ImageDataModule = DTD(root=str(tmp_path), img_size=16, batch_size=6, cache_gib=cache_gib)
        if stored == "in shards":
            source = module
            for split in ("train", "val", "test"):
                write_shards(source.load([split])[split], tmp_path / "shards", split, source.info)
            module = ShardedData(name="shards", root=str(tmp_path), img_size=16, batch_size=6, cache_gib=cache_gib)
        module.setup("fit")
        module.setup("test")
        loaders = (module.test_dataloader(), module.val_dataloader(), module.train_dataloader())
        return [batch.inputs for loader in loaders for batch in loader]

    each = read(cache_gib=0)
    assert not any(torch.equal(left, right) for left, right in itertools.combinations(each, 2))
    assert same(each, read(cache_gib=1))
    assert len(caches()) == 3


def _swap(first: Path, second: Path) -> None:
    """Exchange two files or folders, whose own times stay."""
    kept = first.with_name("kept")
    first.rename(kept), second.rename(first), kept.rename(second)


def _replace(first: Path, second: Path) -> None:
    """Exchange the contents of two files; the first keeps its times, as after ``cp -p`` and ``rsync -t``."""
    state, content = first.stat(), first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    for path in (first, second):
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))


@pytest.mark.parametrize("exchange", ["contents", "files", "class folders"])
def test_images_that_were_exchanged_are_decoded_again(images: Path, tmp_path: Path, exchange: str) -> None:
    own = Path(shutil.copytree(images, tmp_path / "own"))
    first, second = sorted((own / "train").iterdir())[:2]
    if exchange != "class folders":
        first, second = (min(folder.iterdir()) for folder in (first, second))
    for path in [path for path in own.rglob("*") if path.is_file()]:  # all of one size and one time
        path.write_bytes(path.read_bytes().ljust(8000, b"\0"))
        os.utime(path, ns=(10**18, 10**18))
    before = opened(own)
    kept, seen = epochs(before), before.fingerprint()
    (_replace if exchange == "contents" else _swap)(first, second)
    after = opened(own)
    assert same(epochs(after), epochs(opened(own, cache_gib=0)))
    assert not same(epochs(after), kept)
    assert after.fingerprint() != seen  # a run is not resumed on them


class Cropped(ImageFiles):
    """A user's images, which are cropped by a table."""

    left = 0

    def decoded(self, index: int) -> Image.Image:
        image = super().decoded(index)
        return image.crop((self.left, 0, image.width, image.height))


class CroppedData(ImageFolderData):
    """A user's data module, which reads them."""

    def read(self, split: Split) -> Images:
        files = super().read(split)
        assert isinstance(files, ImageFiles)
        return Cropped(files.folder, [os.fsdecode(name) for name in files.names], files.labels, files.where)


def test_pixels_that_depend_on_a_users_code_are_not_kept(images, monkeypatch):
    def pixels() -> tuple[Tensor, dict[str, str]]:
        module = CroppedData(root=str(images), img_size=24, batch_size=8)
        module.setup("test")
        return torch.cat([batch.inputs for batch in module.test_dataloader()]), module.fingerprint()

    before, seen = pixels()
    monkeypatch.setattr(Cropped, "left", 6)
    after, now = pixels()
    assert not torch.equal(after, before)
    assert now != seen  # a run is not resumed on them
    assert not caches()
