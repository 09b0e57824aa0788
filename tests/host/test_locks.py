"""Locks of run folders: one holder, nothing left of a run that never began, and file systems without locks."""

import errno
import fcntl
import multiprocessing

import pytest

from lgx.core.rows import Row, add_rows, read_rows
from lgx.errors import UserError
from lgx.host.locks import INHERITED, is_locked, locked, run_lock


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
