"""Files are written completely or not at all; foreign ones are refused in a sentence."""

import os
import time

import pytest

from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.host.safety import parse_json, read_json


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


def test_temporary_files_are_removed_after_a_day(tmp_path):
    with atomic_path(tmp_path / "a") as outer:
        outer.write_text("one")
        with atomic_path(tmp_path / "a") as inner:
            inner.write_text("two")
        assert outer.read_text() == "one"
    day = 24 * 3600
    for name, age in (
        (".a.12345678.tmp", day / 2),
        (".a.87654321.tmp", 2 * day),
    ):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (time.time() - age,) * 2)
    with atomic_path(tmp_path / "a") as temporary:
        temporary.write_text("three")
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".a.12345678.tmp", "a"]


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"[1,\n", "not valid JSON (Expecting value: line 2"),
        (b'"\xff"', "'utf-8' codec"),
    ],
)
def test_json_that_cannot_be_read_is_named_with_the_remedy(tmp_path, text, words):
    (tmp_path / "a.json").write_bytes(text)
    with pytest.raises(UserError) as caught:
        read_json(tmp_path / "a.json", "mend it")
    message = str(caught.value)
    assert message.startswith(str(tmp_path / "a.json"))
    assert message.endswith("; mend it")
    assert words in message
    with pytest.raises(UserError, match=r"^key: "):
        parse_json(text, "key", "mend it")
