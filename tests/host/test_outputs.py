"""What a command may replace, and what it never replaces."""

import os

import pytest

from lgx.errors import UserError
from lgx.host.outputs import check_file, check_folder

FOLDER = ("model folder", ("config.json", "README.md"))


def own(path):
    return True


def foreign(path):
    return False


def test_a_new_place_and_an_own_file_are_free(tmp_path):
    check_file(tmp_path / "new", "lgx x", foreign)
    (tmp_path / "old").write_text("")
    check_file(tmp_path / "old", "lgx x", own, reads=["no_such_file", None])


@pytest.mark.parametrize("check", [check_file, lambda *given: check_folder(*given, FOLDER)])
def test_a_url_is_refused(check):
    with pytest.raises(UserError, match="--out names a file or folder of this machine; upload with `hf upload`"):
        check("hf://lab/vit", "lgx x", own)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_file_that_is_read_is_never_replaced_also_behind_a_link(tmp_path, link):
    (tmp_path / "source").write_text("")
    link(tmp_path / "source", tmp_path / "other")
    for name in ("source", "other"):
        with pytest.raises(UserError, match=r"this command reads .*/source, which it would replace"):
            check_file(tmp_path / name, "lgx x", own, force=True, reads=[tmp_path / "source"])


def test_a_foreign_file_in_a_folder_that_is_read_is_never_replaced(tmp_path):
    (tmp_path / "best.ckpt").write_text("")
    with pytest.raises(UserError, match="belongs to"):
        check_file(tmp_path / "best.ckpt", "lgx x", foreign, force=True, reads=[tmp_path])
    check_file(tmp_path / "best.ckpt", "lgx x", own, reads=[tmp_path])


@pytest.mark.parametrize("place", ["folder", "pipe"])
def test_a_file_never_replaces_a_folder_or_a_device(tmp_path, place):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is a folder or a device, expected a file"):
        check_file(tmp_path / place, "lgx x", own, force=True)


def test_a_folder_is_replaced_as_a_whole_only_without_unknown_files(tmp_path):
    folder = tmp_path / "model"
    check_folder(folder, "lgx x", foreign, FOLDER)
    folder.mkdir()
    check_folder(folder, "lgx x", foreign, FOLDER)  # an empty one
    (folder / "config.json").write_text("{}")
    with pytest.raises(UserError, match="did not write it"):
        check_folder(folder, "lgx x", foreign, FOLDER)
    check_folder(folder, "lgx x", foreign, FOLDER, force=True)
    check_folder(folder, "lgx x", own, FOLDER)
    with pytest.raises(UserError, match="this command reads"):
        check_folder(folder, "lgx x", own, FOLDER, force=True, reads=[folder / "config.json"])
    (folder / "thesis.txt").write_text("")
    with pytest.raises(UserError, match=r"holds thesis\.txt, which does not belong to a model folder"):
        check_folder(folder, "lgx x", own, FOLDER, force=True)


def test_the_current_folder_and_a_file_are_no_place_for_a_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file, expected a folder"):
        check_folder(tmp_path / "file", "lgx x", own, FOLDER, force=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").unlink()
    with pytest.raises(UserError, match="current folder"):
        check_folder(".", "lgx x", own, FOLDER, force=True)
