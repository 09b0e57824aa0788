"""Tiny-ImageNet-200 and iNaturalist 2019: their layouts, and messages about wrong files."""

from pathlib import Path

import pytest

from data_modules import INaturalist2019, TinyImageNet
from data_modules.images.examples import ImageFiles
from tests.support import fake_data

SPLITS = ("train", "val", "test")
KINDS = (TinyImageNet, INaturalist2019)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with both sets."""
    for kind in KINDS:
        fake_data.FORMATS[kind.info.name](tmp_path, monkeypatch)
    return tmp_path


def files(module: TinyImageNet | INaturalist2019) -> dict[str, dict[str, int]]:
    """Name and label of every image, per split."""
    found = {}
    for split in SPLITS:
        images = module.read(split)  # type: ignore[arg-type]
        assert isinstance(images, ImageFiles)
        found[split] = {images.path(i).name: images[i][1] for i in range(len(images))}
    return found


def test_the_official_val_images_are_the_test_and_have_the_labels_of_their_tables(root):
    parts = files(TinyImageNet(root=str(root), val_fraction=0.2))
    assert parts["test"] == {f"val_{i}.JPEG": i % 2 for i in range(6)}
    train = parts["train"] | parts["val"]
    assert [len(parts[split]) for split in SPLITS] == [32, 8, 6]
    assert {name.split("_")[0]: label for name, label in train.items()} == {"n02124075": 0, "n01443537": 1}
    parts = files(INaturalist2019(root=str(root), val_fraction=0.2))
    assert [len(parts[split]) for split in SPLITS] == [24, 6, 9]
    # Classes have the order of their numbers: 7, 12, 400.
    expected = {f"val{99 - k}.jpg": (2, 0, 1)[k % 3] for k in range(9)}
    assert parts["test"] == expected
    assert not parts["train"].keys() & parts["val"].keys()
