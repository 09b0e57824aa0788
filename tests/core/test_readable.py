"""Metrics, numbers and times as a person reads them."""

import pytest

from lgx.core.readable import aligned, digits, lasting, measured, tag_in_words


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0.0 s"),
        (2.44, "2.4 s"),
        (9.7, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (200, "3 min 20 s"),
        (7500, "2 h 05 min"),
        (86_399, "23 h 59 min"),
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
    assert [tag_in_words(tag) for tag in ("val/acc", "miou", "test/a/loss")] == [
        "val accuracy",
        "mean IoU",
        "test a loss",
    ]


def test_numbers_are_aligned_at_the_right():
    assert aligned([("name", "n"), ("a", "100"), ("bcdef", "7")], left=1) == ["name     n", "a      100", "bcdef    7"]
