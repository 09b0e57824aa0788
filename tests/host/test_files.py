"""Files are written completely or not at all; foreign ones are refused in a sentence; facts about the code are kept."""

import os
import signal
import time

import pytest
import torch

from lgx.errors import UserError
from lgx.host import cache
from lgx.host.files import atomic_path
from lgx.host.safety import parse_json, read_json, refuse_non_finite
from tests.support.command_line import python


def test_a_folder_that_cannot_be_replaced_stays(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "a").write_text("old")

    def fail():
        with atomic_path(tmp_path / "model") as temporary:
            temporary.mkdir()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (tmp_path / "model" / "a").read_text() == "old"
    with atomic_path(tmp_path / "model") as temporary:
        temporary.mkdir()
        (temporary / "b").write_text("new")
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    assert [p.name for p in (tmp_path / "model").iterdir()] == ["b"]


KILLED = """
import os, signal, sys
from lgx.host.files import atomic_path
with atomic_path(sys.argv[1]) as temporary:
    if sys.argv[2] == "folder":
        temporary.mkdir()
        (temporary / "half").write_text("half")
    else:
        temporary.write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_a_killed_writer_left_is_removed_when_the_file_is_next_written(tmp_path, kind):
    assert python("-c", KILLED, tmp_path / "last.ckpt", kind).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    other = tmp_path / left.name.replace("last.ckpt", "best.ckpt")  # of another file
    other.write_text("")
    with atomic_path(tmp_path / "last.ckpt") as temporary:
        temporary.write_text("whole")
    assert sorted(tmp_path.iterdir()) == sorted([other, tmp_path / "last.ckpt"])


def test_temporary_files_of_running_writers_stay(tmp_path):
    with atomic_path(tmp_path / "a") as outer:
        outer.write_text("one")
        with atomic_path(tmp_path / "a") as inner:
            inner.write_text("two")
        assert outer.read_text() == "one"
    day = 24 * 3600
    for name, age in (
        (".a.12345678.tmp", day / 2),
        (".a.0badcafe-1.12345678.tmp", day / 2),
        (".a.87654321.tmp", 2 * day),
    ):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    with atomic_path(tmp_path / "a") as temporary:
        temporary.write_text("three")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".a.0badcafe-1.12345678.tmp", ".a.12345678.tmp", "a"]


def test_a_folder_that_was_moved_aside_is_kept_while_it_is_the_only_copy(tmp_path):
    aside = tmp_path / ".model.12345678.old"
    aside.mkdir()
    os.utime(aside, (0, 0))
    with pytest.raises(ZeroDivisionError), atomic_path(tmp_path / "model"):
        raise ZeroDivisionError
    assert aside.is_dir()
    (tmp_path / "model").mkdir()
    with pytest.raises(ZeroDivisionError), atomic_path(tmp_path / "model"):
        raise ZeroDivisionError
    assert not aside.exists()


def test_a_fact_is_computed_again_after_a_change_of_the_code_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_CACHE", str(tmp_path))
    values = iter([1, 2])
    assert [cache.remembered("x", lambda: next(values)) for _ in range(2)] == [1, 1]
    monkeypatch.setattr(cache, "stamp", lambda path: b"another")
    assert cache.remembered("x", lambda: next(values)) == 2


def test_a_cache_that_cannot_be_written_changes_nothing(tmp_path, monkeypatch):
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("LGX_CACHE", str(tmp_path / "blocked"))
    assert [cache.remembered("x", lambda: 1) for _ in range(2)] == [1, 1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[1,\n", "not valid JSON (Expecting value: line 2"),
        (b"[" * 100_000, "not valid JSON (maximum recursion depth"),
        (b"1" * 10_000, "not valid JSON (Exceeds the limit"),
        (b'"\xff"', "'utf-8' codec"),
        (b"[1, 2, 3, 4, 5]" * 7_000, "more than 100,000 characters of JSON"),
    ],
)
def test_json_that_cannot_be_read_is_named_with_the_remedy(tmp_path, text, words):
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(UserError) as caught:
        read_json(tmp_path / "a.json", "mend it", largest=100_000)
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "a.json"))
    assert message.endswith("; mend it")
    assert words in message
    with pytest.raises(UserError, match=r"^key: "):
        parse_json(text, "key", "mend it", largest=100_000)


def test_tensors_that_are_not_finite_are_refused():
    with pytest.raises(UserError, match="f: w has values that are not finite"):
        refuse_non_finite({"finite": torch.zeros(2), "w": torch.tensor(float("nan"))}, "f")
