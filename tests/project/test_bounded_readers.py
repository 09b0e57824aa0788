"""Readers of archives, images, tables and texts refuse what would take gigabytes or minutes, in one sentence."""

import json
from typing import NamedTuple

import pytest

from tests.support.bombs import BOMBS, MEMORY, SECONDS, main
from tests.support.forks import fork


class Ending(NamedTuple):
    """How a reader ended."""

    error: str
    message: str
    seconds: float


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ending]:
    """What happened with each of them, in a gigabyte of memory."""
    folder = tmp_path_factory.mktemp("bombs")
    reading = fork(main, (folder,), folder)
    reading.join(170)
    assert reading.exitcode == 0, (folder / "log").read_text()[-2000:]
    return {name: Ending(*ending) for name, ending in json.loads((folder / "found.json").read_text()).items()}


@pytest.mark.parametrize("name", BOMBS)
def test_a_reader_refuses_what_is_too_large(endings: dict[str, Ending], name: str) -> None:
    ending = endings[name]
    assert ending.error == "UserError", ending
    assert "memory" not in ending.message.lower()
    assert ending.seconds < SECONDS / 2


def test_the_messages_name_the_bounds(endings: dict[str, Ending]) -> None:
    assert MEMORY <= 2**30
    for name, words in {
        "tar: name header": "a header of 1,073,741,824 bytes, more than 262,144",
        "an image": "its 176,890,000 pixels are more than 67,108,864; resize it first",
        "a mask": "its 176,890,000 pixels are more than 67,108,864; resize it first",
        "an image of torchvision": "its 176,890,000 pixels are more than 67,108,864; resize it first",
        "an image in a shard": "its 176,890,000 pixels are more than 67,108,864; resize it first",
        "table: many lines": "more than 2,000,000 lines",
    }.items():
        assert words in endings[name].message, name
