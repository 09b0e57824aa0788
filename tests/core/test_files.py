"""Files and folders are written completely or not at all."""

import pytest

from lgx.core.files import atomic_path


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
