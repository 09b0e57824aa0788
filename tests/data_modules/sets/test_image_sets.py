"""Image sets: the real formats, their splits, and messages about wrong files."""

import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_modules import CIFAR10, FER2013, FashionMNIST, ImageDataModule, ImageFolderData
from data_modules.catalog import infos, open_set
from data_modules.images.examples import ImageFiles
from data_modules.own_images import base
from data_modules.registry import IMAGE_SETS
from data_modules.splits import stratified_order, stratified_split
from lgx.errors import UserError
from tests.support import fake_data
from tests.support.image_sets import SPLITS, check_splits


def with_classes(kind: type[ImageDataModule], classes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "info", replace(kind.info, num_classes=classes))


@pytest.mark.parametrize("name", fake_data.FORMATS)
def test_every_format_is_read_into_disjoint_splits(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_data.FORMATS[name](tmp_path, monkeypatch)
    kind = IMAGE_SETS[name]
    if name == "imagenet":
        with_classes(kind, 2, monkeypatch)
    assert kind.is_present(tmp_path)
    check_splits(kind(root=str(tmp_path), val_fraction=0.2, batch_size=4))


def test_the_official_val_images_are_the_test_and_have_the_labels_of_their_tables(tmp_path, monkeypatch):
    def files(name: str) -> dict[str, dict[str, int]]:
        """Name and label of every image, per split."""
        fake_data.FORMATS[name](tmp_path, monkeypatch)
        read = {split: IMAGE_SETS[name](root=str(tmp_path), val_fraction=0.2).read(split) for split in SPLITS}
        return {split: {part.path(i).name: part[i][1] for i in range(len(part))} for split, part in read.items()}

    parts = files("tiny_imagenet")
    assert parts["test"] == {f"val_{i}.JPEG": i % 2 for i in range(6)}
    train = parts["train"] | parts["val"]
    assert [len(parts[split]) for split in SPLITS] == [32, 8, 6]
    assert {name.split("_")[0]: label for name, label in train.items()} == {"n02124075": 0, "n01443537": 1}
    parts = files("inat2019")
    assert [len(parts[split]) for split in SPLITS] == [24, 6, 9]
    # Classes have the order of their numbers: 7, 12, 400.
    expected = {f"val{99 - k}.jpg": (2, 0, 1)[k % 3] for k in range(9)}
    assert parts["test"] == expected
    assert not parts["train"].keys() & parts["val"].keys()


def test_class_folders_are_accepted_in_place_of_the_publishers_files(tmp_path, monkeypatch):
    for k, split in enumerate(("train", "validation", "test")):
        fake_data.class_tree(tmp_path / "fer2013" / split, list(FER2013.info.class_names), 2, k)
    for k, split in enumerate(("train", "test")):
        fake_data.class_tree(tmp_path / "cifar10" / split, list(CIFAR10.info.class_names), 10, k)
    assert [len(FER2013(root=str(tmp_path)).read(s)) for s in SPLITS] == [14, 14, 14]
    assert [len(CIFAR10(root=str(tmp_path)).read(s)) for s in SPLITS] == [90, 10, 100]
    for name, test in (("tiny_imagenet", "val"), ("ham10000", "test")):
        with_classes(IMAGE_SETS[name], 2, monkeypatch)
        for k, split in enumerate(("train", test)):
            fake_data.class_tree(tmp_path / name / split, ["a", "b"], 10, k)
        assert [len(IMAGE_SETS[name](root=str(tmp_path)).read(s)) for s in SPLITS] == [18, 2, 20]
    neutral = FER2013(root=str(tmp_path)).read("train")
    assert isinstance(neutral, ImageFiles)
    assert {neutral.path(i).parent.name for i in np.flatnonzero(neutral.labels == 6)} == {"neutral"}


def test_custom_images_may_have_any_names(tmp_path: Path) -> None:
    fake_data.class_tree(tmp_path / "train", ["crow", "tit"], 3)
    image = (tmp_path / "train/tit/000.png").read_bytes()
    (tmp_path / "train/tit/._000.png").write_bytes(b"what macOS adds to archives")
    for name in (b"a b.png", "\u00fc.png".encode(), b"\xff.png"):
        Path(os.fsdecode(os.fsencode(tmp_path / "train/tit") + b"/" + name)).write_bytes(image)
    module = ImageFolderData(root=str(tmp_path), img_size=16, batch_size=1)
    module.setup("fit")
    assert len(module.read("train")) + len(module.read("val")) == 9
    assert len(list(module.train_dataloader())) == len(module.read("train"))


@pytest.mark.parametrize("name", [info.name for info in infos() if info.kind != "text"])
def test_absent_data_name_the_set_and_the_command(name: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"^{name}: no.*; run `lgx data prepare {name} --root {tmp_path}"):
        open_set(name, str(tmp_path)).setup("fit")


def test_a_corrupted_archive_names_split_and_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_data.fashion_mnist(tmp_path, monkeypatch)
    images = tmp_path / "fashion_mnist" / "FashionMNIST" / "raw" / "train-images-idx3-ubyte"
    images.write_bytes(images.read_bytes()[:5000])
    with pytest.raises(UserError, match=r"fashion_mnist train: .* incomplete or corrupted .*lgx data prepare"):
        FashionMNIST(root=str(tmp_path)).setup("fit")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_truncated_image_ends_with_one_sentence_even_in_a_worker(tmp_path, workers, monkeypatch) -> None:
    monkeypatch.setattr(base, "_CHECKED", 0)  # else it is named before training
    for k, split in enumerate(("train", "val")):
        fake_data.class_tree(tmp_path / "own" / split, ["a", "b"], 4, k)
    broken = tmp_path / "own" / "train" / "b" / "002.png"
    module = ImageFolderData(root=str(tmp_path / "own"), img_size=16, batch_size=2, num_workers=workers)
    module.setup("fit")
    broken.write_bytes(broken.read_bytes()[:100])
    with pytest.raises(UserError) as error:
        list(module.train_dataloader())
    assert str(error.value).startswith(f"own train: {broken} cannot be decoded")
    assert "\n" not in str(error.value)
    assert multiprocessing.active_children() == []


def test_one_class_no_images_and_missing_folders_are_explained(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no folder train/"):
        ImageFolderData(root=str(tmp_path))
    fake_data.class_tree(tmp_path / "train", ["a"], 2)
    with pytest.raises(UserError, match=r"at least 2 class folders .* found 1"):
        ImageFolderData(root=str(tmp_path))
    fake_data.class_tree(tmp_path / "train", ["b"], 2)
    with pytest.raises(UserError, match="no folder test/"):
        ImageFolderData(root=str(tmp_path)).read("test")
    (tmp_path / "test" / "a").mkdir(parents=True)
    (tmp_path / "test" / "b").mkdir(parents=True)
    with pytest.raises(UserError, match="test: no image below"):
        ImageFolderData(root=str(tmp_path)).read("test")


label_lists = st.lists(st.integers(0, 4), min_size=2, max_size=80)


@settings(max_examples=60)
@given(label_lists, st.floats(0.02, 0.9), st.integers(0, 3))
def test_a_stratified_split_is_disjoint_complete_and_keeps_every_class(labels, fraction, seed):
    kept, held = stratified_split(labels, fraction, seed)
    assert sorted([*kept, *held]) == list(range(len(labels)))
    array = np.array(labels)
    assert set(array[kept]) == set(labels)
    for c, n in zip(*np.unique(array, return_counts=True), strict=True):
        assert abs((array[held] == c).sum() - fraction * n) <= 1
    again = stratified_split(labels, fraction, seed)
    assert np.array_equal(kept, again[0])


@settings(max_examples=60)
@given(label_lists, st.integers(0, 3))
def test_every_prefix_of_the_stratified_order_contains_all_classes(labels: list[int], seed: int) -> None:
    order = stratified_order(labels, seed)
    classes = len(set(labels))
    assert sorted(order) == list(range(len(labels)))
    assert len({labels[i] for i in order[:classes]}) == classes
