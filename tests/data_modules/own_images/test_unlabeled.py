"""Images without labels: folders of any form, and labeled sets whose labels are left out."""

from pathlib import Path

import pytest

from data_modules import ImageFolderData, UnlabeledFolderData
from lgx.errors import UserError
from tests.support.images import write_images


@pytest.fixture
def flat(images: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    (folder / "deep" / "er").mkdir(parents=True)
    for number, file in enumerate(sorted((images / "train").rglob("*.png"))):
        place = folder if number % 3 else folder / "deep" / "er"
        (place / f"{number}.png").write_bytes(file.read_bytes())
    return folder


def test_all_images_below_a_folder_are_read_and_a_share_is_held_out(flat):
    data = UnlabeledFolderData(root=str(flat), img_size=16, val_fraction=0.25, batch_size=6)
    assert (data.task.name, data.task.num_classes, data.task.is_labeled) == ("mine", 0, False)
    data.setup("fit")
    assert (data.task.num_train, len(data.examples("val"))) == (36, 12)
    train, val = ({*data.examples(split).names.tolist()} for split in ("train", "val"))
    assert not train & val
    assert len(train | val) == 48
    batch = next(iter(data.train_dataloader()))
    assert batch.inputs.shape == (6, 3, 16, 16)
    again = UnlabeledFolderData(root=str(flat), img_size=16, val_fraction=0.25)
    again.setup("fit")
    assert again.fingerprint() == data.fingerprint()


def test_folders_of_splits_are_recognized_and_class_folders_count_for_nothing(tmp_path):
    root = write_images(tmp_path / "shapes", {"train": 12, "val": 6, "test": 9})
    data = UnlabeledFolderData(root=str(root), img_size=16, batch_size=4)
    data.setup("fit")
    data.setup("test")
    assert [len(data.examples(split)) for split in ("train", "val", "test")] == [12, 6, 9]
    assert data.num_classes == 0


def test_a_labeled_set_can_leave_its_labels_out(images):
    data = ImageFolderData(root=str(images), img_size=16, labels=False)
    labeled = ImageFolderData(root=str(images), img_size=16)
    assert (data.num_classes, labeled.num_classes) == (0, 3)
    assert (data.task.metric, data.task.class_names, data.task.kind) == ("agreement", (), "classification")
    data.setup("fit")
    assert data.task.num_train == 48


def test_mistakes_are_named(flat, tmp_path):
    with pytest.raises(UserError, match=r"data\.labels: UnlabeledFolderData has no labels"):
        UnlabeledFolderData(root=str(flat), labels=True)
    with pytest.raises(UserError, match="has no folder test/"):
        UnlabeledFolderData(root=str(flat)).setup("test")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"no images in .*empty or below"):
        UnlabeledFolderData(root=str(tmp_path / "empty")).setup("fit")
