"""Class folders with names, files or permissions that would lead to a wrong or puzzling result are named."""

import shutil
from pathlib import Path

import pytest

from data_modules import ImageFolderData
from data_modules.images.examples import ImageFiles
from lgx.errors import UserError
from lgx.host.safety import list_images
from tests.support.fake_data import class_tree
from tests.support.images import write_images


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small set of three classes."""
    return write_images(tmp_path / "mine", {"train": 6, "val": 3, "test": 3})


def test_skipped_files_are_counted_by_suffix(tree: Path, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("a.svg", "b.SVG", "notes.txt", ".hidden.svg", "README"):
        (tree / "train" / "circle" / name).write_bytes(b"x")
    module = ImageFolderData(root=str(tree))
    with caplog.at_level("INFO", "lightning.pytorch.utilities.rank_zero"):
        assert len(module.read("train")) == 6
        module.read("train")
    (line,) = (record.getMessage() for record in caplog.records)
    assert line.startswith(f"{tree / 'train'}: 4 files (.svg 2, without suffix 1, .txt 1) were skipped; .jpg, .jpeg")


def test_a_class_without_images_is_refused(tree: Path) -> None:
    for picture in (tree / "train" / "circle").iterdir():
        picture.rename(picture.with_suffix(".svg"))
    with pytest.raises(UserError, match=r"no image of class circle in .*\.npy"):
        ImageFolderData(root=str(tree)).read("train")


def test_linked_folders_are_read_once_and_hidden_ones_never(tree: Path, tmp_path: Path) -> None:
    name = next(path.name for path in sorted((tree / "train").iterdir()))
    folder, elsewhere = tree / "train" / name, tmp_path / "elsewhere"
    before = len(list_images(folder)[0])
    class_tree(elsewhere, ["batch"], 3)
    (folder / "more").symlink_to(elsewhere)
    (elsewhere / "back").symlink_to(folder)
    class_tree(folder, [".thumbnails"], 2)
    images = [str(path.relative_to(folder)) for path in list_images(folder)[0]]
    assert len(images) == before + 3
    assert [path for path in images if "batch" in path] == [f"more/batch/{i:03d}.png" for i in range(3)]


@pytest.mark.parametrize(
    ("names", "order"),
    [
        (["10", "2", "01", "1"], ["01", "1", "2", "10"]),
        (["1", "001", "01"], ["001", "01", "1"]),
        (["b10", "b9", "A"], ["A", "b10", "b9"]),
    ],
)
def test_the_order_of_classes_depends_on_their_names_alone(tmp_path, monkeypatch, names, order):
    for split in ("train", "test"):
        class_tree(tmp_path / split, names, 2)
    listed = Path.iterdir
    for turn in (1, -1):  # a file system may list a folder in any order
        monkeypatch.setattr(Path, "iterdir", lambda self, turn=turn: iter(sorted(listed(self))[::turn]))
        module = ImageFolderData(root=str(tmp_path))
        assert module.classes == order
        assert module.read("test").labels.tolist() == sorted([*range(len(order))] * 2)


def test_classes_txt_gives_the_order_and_names_what_differs(tree: Path) -> None:
    found = ImageFolderData(root=str(tree)).classes
    (tree / "classes.txt").write_text("\n".join(found[::-1]))
    module = ImageFolderData(root=str(tree), val_fraction=0.5)
    assert module.task.class_names == tuple(found[::-1])
    files = module.read("test")
    assert isinstance(files, ImageFiles)
    assert {files.path(index).parent.name for index in range(len(files)) if files.labels[index] == 0} == {found[-1]}
    (tree / "classes.txt").write_text("\n".join([*found[1:], "cube"]))
    with pytest.raises(UserError, match=rf"lacks 'cube' and has the unknown class folders '{found[0]}'"):
        ImageFolderData(root=str(tree)).read("test")


def test_classes_of_a_table_are_in_the_order_of_numbers(tmp_path: Path) -> None:
    rows = [f"{name}.png,{name}" for name in ("10", "9")]
    (tmp_path / "labels.csv").write_text("\n".join(["file,label", *rows]))
    assert ImageFolderData(root=str(tmp_path)).classes == ["9", "10"]
    (tmp_path / "classes.txt").write_text("10\n9")
    with pytest.raises(UserError, match=r"classes\.txt: .* with a labels\.csv, remove it"):
        ImageFolderData(root=str(tmp_path))


def test_a_split_with_two_folders_is_refused_and_hidden_classes_are_left_out(tree: Path) -> None:
    class_tree(tree / "train", [".NET"], 1)
    assert ".NET" not in ImageFolderData(root=str(tree)).classes
    shutil.copytree(tree / "val", tree / "validation")
    with pytest.raises(UserError, match="val and validation, which name one split"):
        ImageFolderData(root=str(tree)).read("train")
