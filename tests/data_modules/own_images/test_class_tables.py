"""Images in a flat folder with a table of classes, and files that cannot be read."""

from pathlib import Path

import pytest

from data_modules import ImageFolderData, MultiLabelFolderData, UnlabeledFolderData
from data_modules.catalog import open_set
from lgx.errors import UserError
from tests.support.fake_data import save


@pytest.fixture
def flat(tmp_path: Path) -> Path:
    """24 images, three of them test images."""
    root = tmp_path / "flat"
    for n in range(24):
        save(root / f"{n}.png", n)
    rows = [
        f"{n}.png,{('cat', 'dog, old')[n % 2]!r},{'test' if n > 20 else 'train'}".replace("'", '"') for n in range(24)
    ]
    (root / "labels.csv").write_text("\n".join(["file,label,split", *rows]))
    return root


def test_a_table_gives_each_image_of_a_flat_folder_one_class(flat):
    module = ImageFolderData(root=str(flat), val_fraction=0.2, batch_size=4, img_size=8)
    module.setup("fit")
    assert (module.task.kind, module.task.class_names) == ("classification", ("cat", "dog, old"))
    assert [len(module.read(split)) for split in ("train", "val", "test")] == [17, 4, 3]
    assert {
        int(Path(module.read("train").path(k)).stem) % 2 == label for k, label in enumerate(module.read("train").labels)
    } == {True}
    assert next(iter(module.train_dataloader())).targets.shape == (4,)
    assert open_set(str(flat)).num_classes == 2


@pytest.mark.parametrize(
    ("table", "kind", "words"),
    [
        ("file,label\n0.png,\n1.png,b\n", ImageFolderData, "line 2: has no label"),
        ("file,labels\n0.png,a;b\n1.png,b\n", ImageFolderData, "use --data MultiLabelFolderData"),
        ("file,label\n0.png,a\n1.png,b\n", MultiLabelFolderData, "use --data ImageFolderData"),
        ("file,label,split\n0.png,a,train\n1.png,b,train\n2.png,c,test\n", ImageFolderData, "'c' is not among"),
    ],
)
def test_a_wrong_table_is_refused(flat, table, kind, words):
    (flat / "labels.csv").write_text(table)
    with pytest.raises(UserError, match=words):
        kind(root=str(flat))


@pytest.mark.parametrize("kind", [ImageFolderData, MultiLabelFolderData, UnlabeledFolderData])
def test_a_missing_root_is_named(tmp_path, kind):
    with pytest.raises(UserError, match=r"data.root: .*nowhere does not exist"):
        kind(root=str(tmp_path / "nowhere"))


def test_all_files_that_cannot_be_read_are_named_before_training(flat):
    whole = (flat / "1.png").read_bytes()
    damaged = {"1": whole[:-60], "2": b"", "5": b"<html>", "7": whole[:40]}
    for name, content in damaged.items():
        (flat / f"{name}.png").write_bytes(content)
    (flat / "8.png").write_bytes(whole + b"what a camera appends")
    with pytest.raises(UserError, match="4 of 21 images cannot be read") as refused:
        ImageFolderData(root=str(flat)).setup("fit")
    assert all(f"{flat / name}.png" in str(refused.value) for name in damaged)
