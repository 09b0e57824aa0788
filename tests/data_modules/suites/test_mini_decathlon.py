"""The mini-Decathlon: read from archives in their real layout, split without leaks, complete or absent."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data_modules import MiniDecathlon
from data_modules.base import SPLITS
from data_modules.catalog import infos, is_present
from data_modules.shards.index import read_index
from data_modules.shards.reading import ShardImages
from data_modules.suites import mini_decathlon as mini
from data_modules.suites.mini_archives import SmallFiles
from data_modules.suites.mini_decathlon import FACTS, MINI, MINI_TASKS
from lgx.commands.data import prepare
from lgx.errors import UserError

RNG = np.random.default_rng(0)


def picture(suffix: str, size: tuple[int, int], gray: bool = False) -> bytes:
    pixels = RNG.integers(0, 256, size[::-1] if gray else (*size[::-1], 3), np.uint8)
    image = Image.fromarray(pixels)
    buffer = io.BytesIO()
    formats = {"jpg": "jpeg", "JPEG": "jpeg", "png": "png", "ppm": "ppm"}
    (image.convert("1") if suffix == "png" and gray else image).save(buffer, formats[suffix])
    return buffer.getvalue()


def pack(path: Path, members: dict[str, bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def tree(top: str, classes: list[str], each: int, suffix: str, size: tuple[int, int]) -> dict[str, bytes]:
    return {f"{top}/{c}/{k:04d}.{suffix}": picture(suffix, size) for c in classes for k in range(each)}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archives of every task in their published layout, with a few images each."""
    root = tmp_path_factory.mktemp("archives")
    names = [f"kind{k:02d}" for k in range(12)]
    for split, each in (("train", 10), ("test", 2)):
        pack(root / f"cifar10/{split}.zip", tree(split, names[:10], each, "jpg", (32, 32)))
        pack(root / f"fashion_mnist/{split}.zip", tree(split, list("0123456789"), each, "png", (28, 28)))
        flowers = tree(split, names, each, "jpg", (224, 200))
        if split == "train":
            flowers["train/kind00/0001.jpg"] = flowers["train/kind00/0000.jpg"]
        pack(root / f"flowers12/{split}.zip", flowers)
    parts = {split: tree(split, names[:7], 4, "jpg", (48, 48)) for split in ("train", "validation", "test")}
    parts["train"]["train/kind00/0000.jpg"] = parts["test"]["test/kind03/0001.jpg"]
    parts["validation"]["validation/kind00/0000.jpg"] = parts["test"]["test/kind03/0001.jpg"]
    for split, members in parts.items():
        pack(root / f"fer2013/{split}.zip", members)
    frames = {
        f"gtsrb/{c}/{track:05d}_{frame:05d}.ppm": picture("ppm", (30 + 20 * frame, 31 + 20 * frame))
        for c in range(43) for track in range(10) for frame in range(3)
    }  # fmt: skip
    pack(root / "gtsrb/gtsrb_100_per_class.zip", frames)
    pack(root / "dtd10/dtd10_short128.zip", tree("images", names[:10], 10, "jpg", (140, 128)))
    shared = {
        f"Greek/character{c:03d}/{c:04d}_{drawer:02d}.png": picture("png", (16, 16), gray=True)
        for c in range(2) for drawer in range(1, 21)
    }  # fmt: skip
    for k, count in ((1, 120), (2, 120)):
        half = f"images_background_small{k}"
        own = {
            f"{half}/Own{k}/character{c:03d}/{c:04d}_{drawer:02d}.png": picture("png", (16, 16), gray=True)
            for c in range(count) for drawer in range(1, 21)
        }  # fmt: skip
        pack(root / f"omniglot/{half}.zip", {f"{half}/": b"", **own, **{f"{half}/{n}": d for n, d in shared.items()}})
    wnids = [f"n{k:08d}" for k in range(199, -1, -1)]
    train = {f"train/{w}/images/{w}_{k}.JPEG": picture("JPEG", (8, 8)) for w in wnids for k in range(10)}
    test = {f"val/images/val_{k}.JPEG": picture("JPEG", (8, 8)) for k in range(200)}
    pack(root / "tiny_imagenet/train_50_per_class.zip", train)
    pack(root / "tiny_imagenet/val_all.zip", test)
    (root / "tiny_imagenet/wnids.txt").write_text("\n".join(wnids))
    lines = [f"val_{k}.JPEG\t{w}\t0\t0\t7\t7\n" for k, w in enumerate(wnids)]
    (root / "tiny_imagenet/val_annotations.txt").write_text("".join(lines))
    return root


@pytest.fixture(scope="module")
def root(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All nine tasks, prepared through the command."""
    made = tmp_path_factory.mktemp("mini")
    prepare("mini", root=str(made), source=str(source))
    return made


SIZES = {
    "cifar10": (90, 10, 20), "gtsrb": (903, 129, 258), "dtd10": (70, 10, 20), "flowers12": (107, 12, 24),
    "omniglot": (2662, 968, 1210), "digits": (1258, 180, 359), "tiny_imagenet": (1800, 200, 200),
    "fashion_mnist": (90, 10, 20), "fer2013": (27, 27, 28),
}  # fmt: skip


@pytest.mark.parametrize("task", MINI_TASKS)
def test_every_task_is_split_without_an_image_in_two_splits(root: Path, task: mini.MiniTask) -> None:
    module = MiniDecathlon(task=task, root=str(root), batch_size=8)
    images = {split: module.read(split) for split in SPLITS}
    assert tuple(len(images[split]) for split in SPLITS) == SIZES[task]
    splits = [ShardImages(shards, task) for shards in read_index(module.folder)[1].values()]
    stored = [part.image_bytes(k) for part in splits for k in range(len(part))]
    assert len(set(stored)) == len(stored)
    assert set(np.asarray(images["train"].labels).tolist()) == set(range(FACTS[task].num_classes))
    assert all(min(images["test"][k][0].size) <= 64 for k in range(3))
    module.setup("fit")
    batch = next(iter(module.train_dataloader()))
    assert batch.inputs.shape == (8, 3, 32, 32)
    assert (batch.task, module.task.num_classes) == (f"mini_{task}", FACTS[task].num_classes)


def files(part: SmallFiles) -> list[Path]:
    return [part.path(k) for k in range(len(part))]


def test_no_track_and_no_drawer_is_split(source, tmp_path):
    images = FACTS["gtsrb"].read(source / "gtsrb", tmp_path)  # type: ignore[misc]
    tracks = {split: {(n.parent.name, n.stem[:5]) for n in files(part)} for split, part in images.items()}
    assert not tracks["train"] & tracks["val"]
    assert not (tracks["train"] | tracks["val"]) & tracks["test"]
    for part in images.values():
        assert all(int(name.parent.name) == label for name, label in zip(files(part), part.labels, strict=True))
    images = FACTS["omniglot"].read(source / "omniglot", tmp_path)  # type: ignore[misc]
    drawers = {split: {int(n.stem[-2:]) for n in files(part)} for split, part in images.items()}
    assert drawers == {"train": set(range(1, 12)), "val": set(range(12, 16)), "test": set(range(16, 21))}
    assert {len(set(part.labels.tolist())) for part in images.values()} == {242}


def test_a_prepared_task_is_left_alone_and_needs_no_source(root: Path) -> None:
    before = (root / "mini/dtd10").stat().st_mtime_ns
    prepare("mini", root=str(root))
    prepare("mini_dtd10", root=str(root))
    assert (root / "mini/dtd10").stat().st_mtime_ns == before
    assert is_present("mini_dtd10", root)
    assert {f"mini_{task}" for task in MINI_TASKS} <= {info.name for info in infos()}


def test_missing_archives_are_named_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"mini_dtd10 cannot be downloaded; give --source .* dtd10/dtd10_short128\.zip"):
        prepare("mini_dtd10", root=str(tmp_path / "data"))
    with pytest.raises(UserError, match=r"mini_cifar10: .*cifar10/train\.zip does not exist; --source is the folder"):
        prepare("mini", root=str(tmp_path / "data"), source=str(tmp_path))
    assert not (tmp_path / "data").exists()


GOOD = tree("images", [f"kind{k:02d}" for k in range(10)], 10, "jpg", (8, 8))
BROKEN: dict[str, tuple[dict[str, bytes], str]] = {
    "image": (
        {"images/kind00/._0.jpg": b"of a Mac, skipped", "images/kind00/0000.jpg": b"no image"},
        r"images/kind00/0000\.jpg cannot be decoded",
    ),
    "layout": ({"0000.jpg": b"1"}, r"dtd10 is incomplete or corrupted \(IndexError.*fetch its archives again"),
    "classes": ({"images/more/0000.jpg": b"", "images/more/0001.jpg": b"1"}, "of 11 classes, expected 10"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_unexpected_content_of_a_zip_is_refused_and_leaves_no_files(tmp_path: Path, kind: str) -> None:
    change, sentence = BROKEN[kind]
    pack(tmp_path / "dtd10/dtd10_short128.zip", GOOD | change)
    with pytest.raises(UserError, match=sentence):
        MINI.prepare(tmp_path / "data", "dtd10", tmp_path)
    assert not (tmp_path / "data/mini").exists() or list((tmp_path / "data/mini").iterdir()) == []
