"""Shards that lgx did not write: in both orders they give the same examples or the same refusal."""

import json
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from data_modules.base import Split
from data_modules.shards import unindexed as own_shards
from data_modules.shards.module import ShardedData
from lgx.errors import UserError
from tests.support.picture_files import pil, tar

SPLITS: tuple[Split, ...] = ("train", "val", "test")
Member = tuple[str, bytes]
Files = dict[str, bytes | list[Member]]
"""Names below the folder of the shards -> members of a tar file, or another content."""


def image(number: int, kind: str = "png") -> bytes:
    """An image that shows its number; JPEG keeps it, because all pixels are equal."""
    return pil(np.full((8, 8, 3), number, np.uint8), kind.lower())


def example(number: int, label: Any = None, key: str = "cls", kind: str = "png") -> list[Member]:
    """The members of an example; without ``label`` its class is its number modulo 3."""
    plain = json.dumps({"label": number % 3, "a": 1}) if key == "json" else number % 3
    text = str(plain if label is None else label).encode()
    return [(f"e{number}.{kind}", image(number, kind)), (f"e{number}.{key}", text)]


def shard(numbers: Any = range(12), **options: Any) -> list[Member]:
    return [member for number in numbers for member in example(number, **options)]


def write(folder: Path, files: Files) -> None:
    """Write tar files of members, and files of bytes."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else tar(content))


def outcome(root: Path, in_memory: bool, **options: Any) -> Any:
    """Number and label of the examples of each split, or the refusal."""
    plain = {"mean": (0.0,) * 3, "std": (1 / 255,) * 3, "img_size": 8, "batch_size": 1}
    try:
        made = ShardedData(name="own", root=str(root), in_memory=in_memory, **plain, **options)
        found: dict[Split, list[tuple[int, int]]] = {}
        for stage, splits in {"fit": SPLITS[:2], "test": SPLITS[2:]}.items():
            made.setup(stage)
            for split in splits:
                loader = getattr(made, f"{split}_dataloader")()
                pairs = [pair for b in loader for pair in zip(b.inputs, b.targets, strict=True)]
                found[split] = sorted((round(float(image.mean())), int(label)) for image, label in pairs)
        return found
    except UserError as error:
        return str(error)


ONE: Files = {"train-0.tar": shard()}
WHOLE, BLOCK = tar(shard()), tarfile.BLOCKSIZE
FIVE = 5 * 2 * 2 * BLOCK  # where the sixth example begins: an image and a label take two blocks each
GOOD: dict[str, Files] = {
    "labels in json": {"train-0.tar": shard(key="json") + example(99, 1)},
    "class by class": {f"train-{k}.tar": shard(range(10 * k, 10 * k + 10), label=k) for k in range(3)},
    "validation-0": {**ONE, "validation-0.tar": shard(range(20, 26))},
    "masks and texts beside": {"train.tar": [m for n in range(6) for m in (
        *example(n), (f"e{n}.mask.png", image(200)), (f"e{n}.txt", b"a"))] + [("README.txt", b"a")]},
    "files of macOS, JPEG": {"train-0.tar": [("._e50.png", b"x"), *shard(kind="JPEG")], "train/._0.tar": []},
    "a folder in the tar": {"train-0.tar": [(f"a.b/{name}", content) for name, content in shard()]},
}  # fmt: skip


@pytest.mark.parametrize("name", GOOD)
def test_both_ways_of_reading_give_each_example_once(name, tmp_path, monkeypatch):
    files = {"test/1.tar": shard(range(100, 103)), **GOOD[name]}
    write(tmp_path / "own", files)
    wanted: dict[str, list[int]] = {"tra": [], "val": [], "tes": []}
    for file, members in files.items():
        wanted[file[:3]] += [int(n.split(".")[-2].rpartition("e")[2]) for n, _ in members if n[-4:] in (".cls", "json")]
    found = []
    for in_memory in (True, False):
        monkeypatch.setenv("LGX_CACHE", str(tmp_path / str(in_memory)))
        found.append(outcome(tmp_path, in_memory, val_fraction=0.25))
    assert found[0] == found[1]
    parts = {split: [number for number, _ in pairs] for split, pairs in found[0].items()}
    assert parts["test"] == wanted["tes"]
    assert parts["val"] == wanted["val"] if wanted["val"] else len(parts["val"]) > 0
    assert sorted(parts["train"] + parts["val"]) == sorted(wanted["tra"] + wanted["val"])
    assert {label for _, label in found[0]["train"]} >= {label for _, label in found[0]["val"]}


REFUSED: list[tuple[Any, str]] = [
    (WHOLE[:FIVE], r"truncated.*no mark of the end"),
    (WHOLE[:FIVE] + b"x" * BLOCK + WHOLE[FIVE + BLOCK :], "no mark of the end"),
    (WHOLE + WHOLE, "further files after the end"),
    (shard(label=1) + example(90, 2), "no training image has the label 0; number"),
    (shard([0, 1]) + example(2, 5), "labels reach 5, but .* the label 2; number"),
    (shard(key="json", label='{"label": true}'), "e0 has the label True, expected a whole"),
    ([*shard(), ("z.png", image(1))], "example z has no label"),
    ([*shard(), ("z.cls", b"1")], "example z has no image, expected one image"),
    ([*shard(), *example(50), ("e50.jpg", image(51, "jpeg"))], "e50 has .png and .jpg"),
    (shard() + example(40, " 1_0 "), "e40 has the label b'1_0', expected a whole number"),
    ({**ONE, "classes.txt": b"a\nb\n"}, "has the label 2, but classes.txt names 2 classes, 0 to 1"),
]
"""Content of a training shard, or several files, and words of the refusal."""


@pytest.mark.parametrize(("files", "words"), REFUSED)
def test_both_ways_of_reading_refuse_in_the_same_sentence(files, words, tmp_path):
    write(tmp_path / "own", files if isinstance(files, dict) else {"train-0.tar": files})
    with pytest.raises(UserError, match=words) as refused:
        ShardedData(name="own", root=str(tmp_path))
    assert "\n" not in str(refused.value)
    assert outcome(tmp_path, in_memory=False) == outcome(tmp_path, in_memory=True) == str(refused.value)


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """Three shards, each of one class."""
    of_classes = {f"train-{k}.tar": shard(range(20 * k, 20 * k + n), label=k) for k, n in enumerate((9, 4, 12))}
    write(tmp_path / "own", {**of_classes, "test.tar": shard(range(90, 93))})
    return tmp_path / "own"


def test_the_split_is_a_stratified_draw_by_its_seed(own: Path) -> None:
    first, other = (outcome(own.parent, False, val_fraction=0.25, split_seed=seed)["val"] for seed in (0, 1))
    assert [sum(label == k for _, label in first) for k in range(3)] == [2, 1, 3]
    assert first != other
    whole = ShardedData(name="own", root=str(own.parent), in_memory=False, val_fraction=0, batch_size=1)
    assert (whole.info.sizes, whole.has_validation) == ((25, 0, 3), False)
    marks = set()
    for options in ({}, {"split_seed": 1}, {"val_fraction": 0.2}):
        for in_memory in (True, False):
            made = ShardedData(name="own", root=str(own.parent), in_memory=in_memory, **options)
            made.setup("fit")
            marks.add(str(made.fingerprint()))
    assert len(marks) == 3, "a run is not resumed with another split"


def test_own_shards_are_counted_once_and_may_have_names(own, monkeypatch):
    counted = []
    count = own_shards._counted
    monkeypatch.setattr(own_shards, "_counted", lambda path: counted.append(path.name) or count(path))
    more = shard(range(4), label=3) + shard(range(4, 9), label=0)
    write(own, {"train-7.tar": more, "val.tar": more, "classes.txt": b"a\nb\nc\nd\ne\n"})
    made = ShardedData(name="own", root=str(own.parent), batch_size=3, img_size=8)
    made.setup("fit")
    assert (made.task.num_classes, made.task.class_names[0], made.info.sizes) == (5, "a", (34, 9, 3))
    assert sorted(counted) == ["test.tar", "train-0.tar", "train-1.tar", "train-2.tar", "train-7.tar", "val.tar"]
    assert torch.cat([batch.targets for batch in made.val_dataloader()]).tolist() == [3] * 4 + [0] * 5
    assert np.bincount(made.examples("train").labels).tolist() == [14, 4, 12, 4]
