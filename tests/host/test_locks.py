"""Locks of run folders: one holder, nothing left of a run that never began, and file systems without locks."""

import errno
import fcntl
import multiprocessing
import os

import pytest

from lgx.core.rows import Row, add_rows, read_rows
from lgx.errors import UserError
from lgx.host.locks import INHERITED, is_locked, locked, run_lock
from lgx.host.outputs import check_output


def test_a_lock_that_a_sweep_holds_for_its_run_is_not_taken_again(tmp_path, monkeypatch):
    folder = tmp_path / "seed0"
    with locked(folder) as lock:
        with pytest.raises(UserError, match="another process trains this run"), run_lock(folder):
            pass
        monkeypatch.setenv(INHERITED, str(lock))
        with run_lock(folder):
            pass
        monkeypatch.setenv(INHERITED, "99")
        assert is_locked(folder)


def test_nothing_is_left_of_a_run_that_never_began(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(ValueError, match="a mistake"), run_lock(tmp_path / "runs/e/a/seed0"):
        raise ValueError("a mistake")
    assert [path.name for path in tmp_path.rglob("*")] == ["runs"]
    with run_lock(tmp_path / "runs/e/a/seed0"):
        (tmp_path / "runs/e/a/seed0").mkdir()
    assert (tmp_path / "runs/e/a/.seed0.lock").exists()


def test_a_removed_lock_file_does_not_let_two_in(tmp_path):
    folder = tmp_path / "seed0"
    with locked(folder) as first:
        assert first is not None
        (tmp_path / ".seed0.lock").unlink()
        with locked(folder) as second:
            assert second is not None  # the first holder has given its lock up by removing the file
            with locked(folder) as third:
                assert third is None


def test_a_file_system_without_locks_is_named_and_used(tmp_path, monkeypatch, capsys):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with run_lock(tmp_path / "seed0"):
        assert "this file system has no locks" in capsys.readouterr().err


def _enter(folder, counter, barrier):
    barrier.wait()
    for _ in range(200):
        with locked(folder) as lock:
            if lock is not None:
                assert counter.value == 0
                counter.value += 1
                counter.value -= 1


def test_many_processes_never_hold_a_lock_together(tmp_path):
    context = multiprocessing.get_context("fork")
    counter, barrier = context.Value("i", 0, lock=False), context.Barrier(4)
    processes = [context.Process(target=_enter, args=(tmp_path / "seed0", counter, barrier)) for _ in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 4


def _add(path, start):
    for seed in range(start, start + 30):
        add_rows(path, [Row("sws", "6-Small", "digits", "test", 1, "acc", 0.5, seed, 100, "r")])


def test_rows_that_several_processes_add_at_the_same_time_are_all_kept(tmp_path):
    context = multiprocessing.get_context("fork")
    path = tmp_path / "results.csv"
    processes = [context.Process(target=_add, args=(path, start)) for start in (0, 30, 60)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert sorted(row.seed for row in read_rows(path)) == list(range(90))


FOLDER = ("config.json", "README.md")


def own(path):
    return True


def foreign(path):
    return False


def test_a_new_place_and_an_own_file_are_free(tmp_path):
    check_output(tmp_path / "new", "lgx x", foreign)
    (tmp_path / "old").write_text("")
    check_output(tmp_path / "old", "lgx x", own, reads=["no_such_file", None])


@pytest.mark.parametrize("names", [None, FOLDER])
def test_a_url_is_refused(names):
    with pytest.raises(UserError, match="expected a local file or folder; upload with `hf upload`"):
        check_output("hf://lab/vit", "lgx x", own, names)


@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_file_that_is_read_is_never_replaced_also_behind_a_link(tmp_path, link):
    (tmp_path / "source").write_text("")
    link(tmp_path / "source", tmp_path / "other")
    for name in ("source", "other"):
        with pytest.raises(UserError, match=r"would replace .*/source, which this command reads"):
            check_output(tmp_path / name, "lgx x", own, force=True, reads=[tmp_path / "source"])


def test_a_foreign_file_in_a_folder_that_is_read_is_never_replaced(tmp_path):
    (tmp_path / "best.ckpt").write_text("")
    with pytest.raises(UserError, match="is inside"):
        check_output(tmp_path / "best.ckpt", "lgx x", foreign, force=True, reads=[tmp_path])
    check_output(tmp_path / "best.ckpt", "lgx x", own, reads=[tmp_path])


@pytest.mark.parametrize("place", ["folder", "pipe"])
def test_a_file_never_replaces_a_folder_or_a_device(tmp_path, place):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="is a folder or a device, expected a file"):
        check_output(tmp_path / place, "lgx x", own, force=True)


def test_a_folder_is_replaced_as_a_whole_only_without_unknown_files(tmp_path):
    folder = tmp_path / "model"
    check_output(folder, "lgx x", foreign, FOLDER)
    folder.mkdir()
    check_output(folder, "lgx x", foreign, FOLDER)  # an empty one
    (folder / "config.json").write_text("{}")
    with pytest.raises(UserError, match="did not write it"):
        check_output(folder, "lgx x", foreign, FOLDER)
    check_output(folder, "lgx x", foreign, FOLDER, force=True)
    check_output(folder, "lgx x", own, FOLDER)
    with pytest.raises(UserError, match="this command reads"):
        check_output(folder, "lgx x", own, FOLDER, force=True, reads=[folder / "config.json"])
    (folder / "thesis.txt").write_text("")
    with pytest.raises(UserError, match=r"holds thesis\.txt, which does not belong to a model folder"):
        check_output(folder, "lgx x", own, FOLDER, force=True)


def test_the_current_folder_and_a_file_are_no_place_for_a_folder(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="is a file, expected a folder"):
        check_output(tmp_path / "file", "lgx x", own, FOLDER, force=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").unlink()
    with pytest.raises(UserError, match="current folder"):
        check_output(".", "lgx x", own, FOLDER, force=True)
