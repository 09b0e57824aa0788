"""The Visual Decathlon: its official layout, archives and splits, and messages about wrong files."""

import json
from pathlib import Path
from typing import Any

import pytest

from data_modules import Decathlon, ShardedData
from data_modules.images.examples import ImageFiles
from data_modules.shards.reading import ShardImages
from data_modules.suites import decathlon_archives as preparing
from data_modules.suites.decathlon import DECATHLON, DecathlonTask
from lgx.commands.data import prepare
from lgx.errors import UserError
from tests.support.fake_decathlon import expect_tiny_files, pack, write_task

SPLITS = ("train", "val", "test")
MADE: tuple[DecathlonTask, ...] = ("dtd", "dped", "imagenet")


@pytest.fixture(autouse=True)
def few_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    expect_tiny_files(monkeypatch)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An unpacked ``decathlon-1.0`` of three tasks; not to be changed."""
    tree = tmp_path_factory.mktemp("official") / "decathlon-1.0"
    for task in MADE:
        write_task(tree, task)
    return tree


@pytest.fixture(scope="module")
def downloads(tree: Path) -> Path:
    return pack(tree, tree.parent / "downloads")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data folder that holds one task."""
    write_task(tmp_path / "decathlon", "dtd")
    return tmp_path


def annotations(root: Path, part: str = "train") -> tuple[Path, dict[str, Any]]:
    path = root / "decathlon" / "annotations" / f"dtd_{part}.json"
    return path, json.loads(path.read_text())


def files(module: Decathlon, split: Any) -> list[str]:
    images = module.read(split)
    assert isinstance(images, ImageFiles)
    return [str(images.path(i).relative_to(module.folder)) for i in range(len(images))]


def test_it_tests_on_the_official_val_and_holds_val_out_of_train(root: Path) -> None:
    module = Decathlon("dtd", root=str(root), val_fraction=0.25, batch_size=4)
    names = {split: files(module, split) for split in SPLITS}
    assert {split: len(n) for split, n in names.items()} == {"train": 9, "val": 3, "test": 6}
    assert {n.split("/")[0] for n in names["train"] + names["val"]} == {"train"}
    assert {n.split("/")[0] for n in names["test"]} == {"val"}
    assert not set(names["train"]) & set(names["val"])
    assert sorted(module.read("val").labels) == [0, 1, 2]
    module.setup("fit")
    batch = next(iter(module.train_dataloader()))
    assert batch.inputs.shape == (4, 3, 72, 72)
    assert (batch.task, module.task.name, module.task.num_train) == ("decathlon_dtd", "decathlon_dtd", 9)


def test_labels_follow_the_sorted_category_ids_and_belong_to_their_file(root: Path) -> None:
    module = Decathlon("dtd", root=str(root))
    for split in SPLITS:
        labels = [int(name.split("/")[1]) - 1 for name in files(module, split)]
        assert labels == module.read(split).labels.tolist()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: c["categories"].pop(), "has 2 categories, expected 3"),
        (lambda c: c["annotations"].pop(), "11 labels for 12 images"),
        (lambda c: c.pop("images"), r"incomplete or corrupted \(KeyError.* unpack it from the devkit again"),
        (None, r": not valid JSON .* from the devkit"),
    ],
)
def test_wrong_annotations_end_with_one_sentence_that_names_the_file(root: Path, change: Any, sentence: str) -> None:
    path, content = annotations(root)
    if change is None:
        path.write_bytes(path.read_bytes()[:200])
    else:
        change(content)
        path.write_text(json.dumps(content))
    with pytest.raises(UserError, match=sentence) as error:
        Decathlon("dtd", root=str(root)).read("train")
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_absent_archives_say_what_to_download(tmp_path: Path) -> None:
    with pytest.raises(UserError) as error:
        prepare("decathlon", root=str(tmp_path))
    sentence = str(error.value)
    for part in (preparing.DEVKIT, preparing.DATA, preparing.IMAGENET, "decathlon_ucf101", "--source FOLDER"):
        assert part in sentence
    assert "\n" not in sentence
    with pytest.raises(UserError, match="lgx data prepare decathlon_dtd"):
        prepare("decathlon_dtd", root=str(tmp_path))


def test_archives_are_unpacked_and_the_missing_tasks_named(tmp_path, downloads, capsys):
    prepare("decathlon", root=str(tmp_path), source=str(downloads))
    shown = capsys.readouterr().out
    for task in MADE:
        assert f"decathlon_{task}: 11 train, 1 val, 6 test images at" in shown
    assert "decathlon_aircraft, decathlon_cifar100" in shown
    assert sorted(p.name for p in (tmp_path / "decathlon" / "data").iterdir()) == ["daimlerpedcls", "dtd", "imagenet12"]
    assert Decathlon("imagenet", root=str(tmp_path)).read("test")[0][0].size == (72, 72)


def test_one_task_can_be_prepared_alone_and_imagenet_later(tmp_path: Path, downloads: Path) -> None:
    prepare("decathlon_dtd", root=str(tmp_path), source=str(downloads), shards=True, shard_size=5)
    assert [p.name for p in (tmp_path / "decathlon" / "data").iterdir()] == ["dtd"]
    shards = ShardedData(name="decathlon_dtd_shards", root=str(tmp_path))
    assert ShardedData(name="decathlon_dtd", root=str(tmp_path)).folder == shards.folder
    assert shards.task.name == "decathlon_dtd"
    assert [len(shards.read(s)) for s in SPLITS] == [11, 1, 6]
    tested = shards.read("test")
    assert isinstance(tested, ShardImages)
    assert tested.image_bytes(0)[:2] == b"\xff\xd8"  # JPEG
    prepare("decathlon_imagenet", root=str(tmp_path), source=str(downloads))
    assert DECATHLON.is_present(tmp_path, "imagenet")
