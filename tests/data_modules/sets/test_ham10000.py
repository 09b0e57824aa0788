"""HAM10000: its labels and its split by lesion."""

import csv
from pathlib import Path

import pytest

from data_modules import HAM10000
from data_modules.images.examples import ImageFiles
from tests.support import fake_data

SPLITS = ("train", "val", "test")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data folder with the unpacked files."""
    fake_data.ham10000(tmp_path, monkeypatch)
    return tmp_path


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def contents(module: HAM10000) -> dict[str, list[str]]:
    images = {split: module.read(split) for split in SPLITS}
    assert all(isinstance(part, ImageFiles) for part in images.values())
    return {s: [part.path(i).stem for i in range(len(part))] for s, part in images.items()}  # type: ignore[union-attr]


@pytest.mark.parametrize("has_two_diagnoses", [False, True])
def test_no_lesion_is_in_two_splits(root: Path, has_two_diagnoses: bool) -> None:
    path = root / "ham10000" / "HAM10000_metadata.csv"
    rows = table(path)
    if has_two_diagnoses:
        rows = [row | {"lesion_id": f"L{int(row['image_id'][-3:]) % 10}"} for row in rows]
        write(path, rows)
    lesion_of = {row["image_id"]: row["lesion_id"] for row in rows}
    module, other = (HAM10000(root=str(root), val_fraction=0.3, split_seed=seed) for seed in (0, 1))
    parts = contents(module)
    assert sorted(image for part in parts.values() for image in part) == sorted(lesion_of)
    lesions = [{lesion_of[image] for image in parts[split]} for split in SPLITS]
    assert sum(len(part) for part in lesions) == len(set(lesion_of.values()))
    if not has_two_diagnoses:
        assert all(set(module.read(split).labels) == set(range(7)) for split in SPLITS)
    assert contents(other)["test"] == parts["test"]
    assert contents(other)["val"] != parts["val"]


def write(path: Path, rows: list[dict[str, str]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_labels_are_the_diagnoses(root):
    module = HAM10000(root=str(root))
    diagnosis = {row["image_id"]: row["dx"] for row in table(root / "ham10000" / "HAM10000_metadata.csv")}
    images = contents(module)["train"]
    assert [module.info.class_names[label] for label in module.read("train").labels] == [diagnosis[i] for i in images]
