"""Metrics, numbers, times, names and progress as a person reads them."""

import re

import pytest

from lgx.core import progress
from lgx.core.names import check_name
from lgx.core.progress import Progress, tracked
from lgx.core.readable import aligned, digits, lasting, measured, tag_in_words
from lgx.core.seed import LARGEST_SEED, check_seed
from lgx.errors import UserError


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (2.44, "2.4 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
        (4 * 86_400 + 3 * 3600 + 60, "4 d 03 h"),
        (float("inf"), "unknown"),
    ],
)
def test_times_have_one_unit_or_two(seconds, text):
    assert lasting(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.8734, "1.873"),
        (2, "2.000"),
        (0.0521, "0.05210"),
        (1234.5, "1234"),
        (123_456, "1.235e+05"),
        (float("nan"), "nan"),
    ],
)
def test_numbers_have_four_digits(value, text):
    assert digits(value) == text


def test_shares_are_in_percent_and_have_two_decimals_if_there_are_many_examples():
    assert measured(0.84249, "acc", 240) == "84.2 %"
    assert measured(0.84249, "val/acc", 10_000) == "84.25 %"
    assert measured(0.5, "mcc") == "50.0 %"
    assert measured(0.5, "test/loss") == "0.5000"


def test_metrics_have_words():
    found = [tag_in_words(tag) for tag in ("val/acc", "miou", "test/a/loss")]
    assert found == ["val accuracy", "mean IoU", "test a loss"]


def test_numbers_are_aligned_at_the_right():
    assert aligned([("name", "n"), ("a", "100"), ("bcdef", "7")], left=1) == ["name     n", "a      100", "bcdef    7"]


@pytest.mark.parametrize("name", ["sws-8", "tal/mini", "depth=3,embed_dim=64", "a..b", "seed", "b-{val/acc:.3f}"])
def test_ordinary_names_are_accepted(name):
    check_name(name, "--name")


@pytest.mark.parametrize("name", ["", "../x", "a/../../x", "/etc", "a//b", "a/", "a/seed0", "$HOME/a", "~/a"])
def test_other_names_are_refused_with_their_place(name):
    with pytest.raises(UserError, match=r"^--name: "):
        check_name(name, "--name")


def test_seeds_are_those_of_numpy():
    check_seed(0, "--seed")
    check_seed(LARGEST_SEED, "--seed")
    for seed in (-1, 2**32):
        with pytest.raises(
            UserError, match=r"--seed: a seed is a whole number from 0 to 4294967295 \(2\*\*32 - 1\), got"
        ):
            check_seed(seed, "--seed")


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


def test_long_work_says_how_far_it_is_and_when_it_will_be_done(clock, capsys):
    assert list(tracked(passing(clock, range(100)), "testing", 100)) == list(range(100))
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].split() == ["testing", "2", "of", "100", "batches,", "1", "min", "38", "s", "left"]
    assert len(lines) == 10  # each ten seconds, and none for the last item
    assert all(re.search(r" left$", line) for line in lines)


def test_the_time_left_is_that_of_the_whole_work(clock, capsys):
    own = Progress("epoch 1", 10)
    own.later = 90
    for _ in passing(clock, range(3)):
        own.advance()
    assert capsys.readouterr().err.split()[-5:] == ["1", "min", "38", "s", "left"]


def test_work_of_unknown_length_says_how_much_is_done(clock, capsys):
    own = Progress("reading", unit="files")
    for _ in passing(clock, range(3)):
        own.advance()
    assert capsys.readouterr().err == "reading    2 files\n"
