"""Shards: writing, resuming, exact reading, and refusal of damaged ones."""

import json
import os
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from data_modules.base import DatasetInfo
from data_modules.images.examples import ImageFiles, LabeledImages
from data_modules.shards import reading as shards
from data_modules.shards.index import INDEX, read_index
from data_modules.shards.module import ShardedData
from data_modules.shards.reading import ShardImages
from data_modules.shards.writing import write_shards
from lgx.errors import UserError
from tests.support import fake_data


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """23 / 9 / 7 examples in shards of 5."""
    root = tmp_path_factory.mktemp("shards") / "toy"
    return fake_data.toy_shards(root)


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(1, 30), size=st.integers(1, 12), split=st.sampled_from(["train", "val"]))
def test_writing_and_reading_gives_every_example_back(tmp_path_factory, n, size, split):
    folder = tmp_path_factory.mktemp("round")
    write_shards(fake_data.numbered(n), folder, split, fake_data.TOY, shard_size=size)
    info, splits = read_index(folder)
    assert info == fake_data.TOY
    assert [s.count for s in splits[split]] == [min(size, n - k) for k in range(0, n, size)]
    back = ShardImages(splits[split], "toy")
    found = sorted((int(fake_data.number_of(image)), label) for image, label in (back[i] for i in range(n)))
    assert found == [(i, i % 4) for i in range(n)]


def test_files_are_stored_as_they_are(tmp_path: Path) -> None:
    fake_data.class_tree(tmp_path / "in", ["a", "b"], 3, suffix="jpg")
    names = sorted(str(p.relative_to(tmp_path / "in")) for p in (tmp_path / "in").rglob("*.jpg"))
    files = ImageFiles(tmp_path / "in", names, [0, 0, 0, 1, 1, 1], "own test")
    write_shards(files, tmp_path / "out", "test", fake_data.TOY, shard_size=10)
    with tarfile.open(tmp_path / "out" / "test-000000.tar") as tar:
        stored = [tar.extractfile(m).read() for m in tar if m.name.endswith(".jpg")]
    assert stored == [(tmp_path / "in" / name).read_bytes() for name in names]


def test_interrupted_writing_resumes_without_writing_good_shards_again(tmp_path: Path) -> None:
    class Interrupted(LabeledImages):
        read = 0

        def __getitem__(self, index: int) -> tuple[Image.Image, int]:
            Interrupted.read += 1
            if Interrupted.read > 12:
                raise KeyboardInterrupt
            return super().__getitem__(index)

    whole = fake_data.numbered(23)
    with pytest.raises(KeyboardInterrupt):
        write_shards(
            Interrupted(whole.source, whole.labels, "toy train"), tmp_path, "train", fake_data.TOY, shard_size=5
        )
    assert sorted(p.name for p in tmp_path.iterdir()) == [INDEX, "train-000000.tar", "train-000001.tar"]
    with pytest.raises(UserError, match="train shards are incomplete"):
        read_index(tmp_path)
    before = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*.tar")}
    (tmp_path / "train-000001.tar").write_bytes(b"damaged")
    write_shards(whole, tmp_path, "train", fake_data.TOY, shard_size=5)
    assert (tmp_path / "train-000000.tar").stat().st_mtime_ns == before[tmp_path / "train-000000.tar"]
    assert len(ShardImages(read_index(tmp_path)[1]["train"], "toy")) == 23


def read_labels(splits, split="train"):
    return np.asarray(ShardImages(splits[split], "toy").labels).tolist()


def test_the_headers_of_an_unchanged_shard_are_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    splits = read_index(folder)[1]
    first = ShardImages(splits["train"], "toy")
    images = [first.image_bytes(k) for k in range(23)]
    read: list[str] = []
    original = shards._read_rows
    monkeypatch.setattr(shards, "_read_rows", lambda shard: read.append(shard.path.name) or original(shard))
    again = ShardImages(splits["train"], "toy")
    assert [again.image_bytes(k) for k in range(23)] == images
    assert read == []
    changed = splits["train"][1].path
    os.utime(changed, ns=(1, 1))
    read_labels(splits)
    assert read == [changed.name]


@pytest.mark.parametrize("damage", [b"", b"no archive", None, "pipe"])
def test_a_damaged_or_absent_place_for_headers_does_no_harm(folder, damage, monkeypatch, tmp_path):
    monkeypatch.setenv("LGX_CACHE", str(tmp_path / "cache"))
    splits = read_index(folder)[1]
    labels = read_labels(splits)
    for file in (tmp_path / "cache" / "shards").glob("*.npy"):
        file.unlink()
        if damage == "pipe":
            os.mkfifo(file)
        elif damage is not None:
            file.write_bytes(damage)
    if damage is None:
        (tmp_path / "cache" / "shards").rmdir()
        (tmp_path / "cache" / "shards").write_text("in the way")
    assert read_labels(splits) == labels


def test_an_index_that_lists_a_shard_twice_is_refused(folder: Path, tmp_path: Path) -> None:
    index = json.loads((folder / INDEX).read_text())
    entry = index["splits"]["train"]
    entry["shards"].append(entry["shards"][0])
    entry["count"] += entry["shards"][0]["count"]
    (tmp_path / INDEX).write_text(json.dumps(index))
    with pytest.raises(UserError, match=r"lists train-000000\.tar 2 times"):
        read_index(tmp_path)


def test_another_set_does_not_overwrite_shards(folder: Path) -> None:
    other = DatasetInfo("other", 4, (1, 1, 1), "none", "here", "made up")
    with pytest.raises(UserError, match="holds shards of toy, not other"):
        write_shards(fake_data.numbered(3), folder, "train", other)


def test_a_missing_index_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no index\.json"):
        ShardedData(name="nothing", root=str(tmp_path))


def test_pipes_in_place_of_files_are_named(folder: Path, tmp_path: Path) -> None:
    toy = Path(shutil.copytree(folder, tmp_path / "toy"))
    for name in ("train-000001.tar", INDEX):
        (toy / name).unlink()
        os.mkfifo(toy / name)
        with pytest.raises(UserError, match=f"{name}.*not a file"):
            ShardedData(name="toy", root=str(tmp_path)).setup("fit")
