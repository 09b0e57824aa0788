"""Locks of run folders: one holder, nothing left of a run that never began, and file systems without locks."""

import errno
import fcntl
import multiprocessing
import os
import subprocess
import sys

import pytest

from lgx.core.rows import Row, add_rows, read_rows
from lgx.errors import UserError
from lgx.host.files import check_output
from lgx.host.locks import locked, run_lock


def test_a_process_takes_its_own_lock_again_and_another_is_refused(tmp_path):
    folder = tmp_path / "seed0"
    with locked(folder) as is_held, run_lock(folder):
        assert is_held
        refused = "from lgx.host.locks import *\nwith run_lock(sys.argv[1]): pass"
        done = subprocess.run([sys.executable, "-c", refused, folder], capture_output=True, text=True)
        assert "another process trains this run" in done.stderr


def test_nothing_is_left_of_a_run_that_never_began(tmp_path):
    (tmp_path / "runs").mkdir()
    with pytest.raises(ValueError, match="a mistake"), run_lock(tmp_path / "runs/e/a/seed0"):
        raise ValueError("a mistake")
    assert [path.name for path in tmp_path.rglob("*")] == ["runs"]
    with run_lock(tmp_path / "runs/e/a/seed0"):
        (tmp_path / "runs/e/a/seed0").mkdir()
    assert (tmp_path / "runs/e/a/.seed0.lock").exists()


def test_a_file_system_without_locks_is_named_and_used(tmp_path, monkeypatch, capsys):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with run_lock(tmp_path / "seed0"):
        assert "this file system has no locks" in capsys.readouterr().err


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
own, foreign = lambda path: True, lambda path: False


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a file, a hard link to it, a folder, a pipe, a model's folder, and one with another file, too."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    os.link("file", "hard")
    for name in ("empty", "model", "mixed"):
        (tmp_path / name).mkdir()
    for name in ("model/config.json", "mixed/config.json", "mixed/thesis.txt"):
        (tmp_path / name).write_text("")
    os.mkfifo("pipe")
    return tmp_path


@pytest.mark.parametrize(
    ("name", "is_own", "options"),
    [
        ("new", foreign, {}),
        ("file", own, {"reads": ["no_such_file", None]}),
        ("file", own, {"reads": ["."]}),
        ("new", foreign, {"names": FOLDER}),
        ("empty", foreign, {"names": FOLDER}),
        ("model", own, {"names": FOLDER}),
        ("model", foreign, {"names": FOLDER, "force": True}),
    ],
)
def test_new_places_own_files_and_what_is_forced_are_free(place, name, is_own, options):
    check_output(place / name, "lgx x", is_own, **options)


@pytest.mark.parametrize(
    ("name", "is_own", "options", "words"),
    [
        ("hf://lab/vit", own, {}, "expected a local file or folder; upload with `hf upload`"),
        ("hard", own, {"reads": ["file"]}, "would replace .*file, which this command reads"),
        ("file", foreign, {"reads": ["."]}, "is inside"),
        ("pipe", own, {}, "is a folder or a device, expected a file"),
        ("model", foreign, {"names": FOLDER, "force": False}, "did not write it"),
        ("model", own, {"names": FOLDER, "reads": ["model/config.json"]}, "this command reads"),
        ("mixed", own, {"names": FOLDER}, r"holds thesis\.txt, which does not belong to a model folder"),
        ("file", own, {"names": FOLDER}, "is a file, expected a folder"),
    ],
)
def test_other_places_are_refused_also_by_force(place, name, is_own, options, words):
    with pytest.raises(UserError, match=words):
        check_output(name, "lgx x", is_own, **{"force": True, **options})


def test_the_current_folder_is_never_replaced(place, monkeypatch):
    monkeypatch.chdir("empty")
    with pytest.raises(UserError, match="current folder"):
        check_output(".", "lgx x", own, FOLDER, force=True)
