"""Lines of progress: none for short work, then what is done, how far, how long."""

import re

import pytest

from lgx.core import progress
from lgx.core.progress import Progress, tracked


@pytest.fixture
def clock(monkeypatch):
    """Time that passes by a second with each item."""
    now = [0.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def passing(clock, items):
    for item in items:
        clock[0] += 1
        yield item


def test_short_work_is_silent(clock, capsys):
    assert list(tracked(passing(clock, range(2)), "testing", 2)) == [0, 1]
    assert capsys.readouterr().err == ""


def test_long_work_says_how_far_it_is_and_when_it_will_be_done(clock, capsys):
    assert list(tracked(passing(clock, range(100)), "testing", 100)) == list(range(100))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].split() == ["testing", "2", "of", "100", "batches,", "1", "min", "38", "s", "left"]
    assert len(lines) == 10  # each ten seconds, and none for the last item
    assert all(re.search(r" left$", line) for line in lines)


def test_the_time_left_is_that_of_the_whole_work(clock, capsys):
    own = Progress("epoch 1", 10, later=90)
    for _ in passing(clock, range(3)):
        own.advance()
    assert capsys.readouterr().err.split()[-5:] == ["1", "min", "38", "s", "left"]


def test_work_of_unknown_length_says_how_much_is_done(clock, capsys):
    own = Progress("reading", unit="files")
    for _ in passing(clock, range(3)):
        own.advance()
    assert capsys.readouterr().err == "reading    2 files\n"
