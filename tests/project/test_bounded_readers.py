"""Every reader of foreign files refuses what would take gigabytes or minutes, in one sentence."""

import json

import pytest

from tests.support.bombs import BOMBS, MEMORY, SECONDS, main
from tests.support.forks import fork


@pytest.fixture(scope="module")
def endings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[str, str, float]]:
    """Class and message of the error with which each reader ended, in a gigabyte of memory, and its seconds."""
    folder = tmp_path_factory.mktemp("bombs")
    reading = fork(main, (folder,), folder)
    reading.join(170)
    assert reading.exitcode == 0, (folder / "log").read_text()[-2000:]
    found: dict[str, tuple[str, str, float]] = json.loads((folder / "found.json").read_text())
    return found


@pytest.mark.parametrize("name", BOMBS)
def test_a_reader_refuses_what_is_too_large(endings: dict[str, tuple[str, str, float]], name: str) -> None:
    error, message, seconds = endings[name]
    assert error == "UserError", message
    assert "memory" not in message.lower()
    assert seconds < SECONDS / 2


def test_the_messages_name_the_bounds(endings: dict[str, tuple[str, str, float]]) -> None:
    assert MEMORY <= 2**30
    for name, words in {
        "configuration: 4000 devices": "a list of more than 64 values",
        "configuration: many values": "more than 2,000 values",
        "command line: 4000 devices": "--trainer.devices: a list of more than 64 values",
        "sweep: 10^12 runs": "describes 1,000,000,000,000 runs, expected at most 100,000",
        "tar: name header": "a header of 1,073,741,824 bytes, more than 262,144",
        "an image: size": "its 176,890,000 pixels are more than 67,108,864; resize it first",
        "a mask: size": "its 176,890,000 pixels are more than 67,108,864; resize it first",
        "an image of torchvision: size": "its 176,890,000 pixels are more than 67,108,864; resize it first",
        "an image in a shard: size": "its 176,890,000 pixels are more than 67,108,864; resize it first",
        "learngene: many tensors": "more than 16,777,216",
        "table: many lines": "more than 2,000,000 lines",
        "results: length": "more than 67,108,864",
    }.items():
        assert words in endings[name][1], name
