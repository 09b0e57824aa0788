"""Boolean options: flags, with or without a value, in front of or behind positional arguments."""

import json

import pytest

from lgx.errors import UserError
from lgx.training.flags import normalize
from tests.support.command_line import lgx

NAMES = ("json", "dry_run")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("--json", "--json"),
        ("--json true", "--json"),
        ("--json=True", "--json"),
        ("--json false", "--no_json"),
        ("--json=false", "--no_json"),
        ("--no-json", "--no_json"),
        ("--no_json", "--no_json"),
        ("--no-json=false", "--json"),
        ("--dry-run", "--dry_run"),
        ("--dry_run true", "--dry_run"),
        ("--no-dry-run", "--no_dry_run"),
        ("--json runs/a", "--json runs/a"),
        ("--json --dry-run false a", "--json --no_dry_run a"),
        ("a --json true false", "a --json false"),
        ("--other-option true --json", "--other-option true --json"),
        ("-- --json true", "-- --json true"),
        ("", ""),
    ],
)
def test_all_forms_of_a_flag(given, expected):
    assert normalize(given.split(), NAMES) == expected.split()


@pytest.mark.parametrize("word", ["--json=maybe", "--json=", "--no-json=1"])
def test_other_values_are_refused(word):
    with pytest.raises(UserError, match=r"--(no_)?json: must be true or false"):
        normalize([word], NAMES)


@pytest.mark.parametrize("flag", ["--json", "--json true", "--json=true", "--no-json false"])
def test_a_flag_takes_no_positional_argument(flag):
    for words in (["arch", *flag.split(), "6-Small"], ["arch", "6-Small", *flag.split()]):
        assert [row["name"] for row in json.loads(lgx(*words).out)] == ["6-Small"]


@pytest.mark.parametrize("flag", ["--no-json", "--json false", "--json=false"])
def test_a_flag_can_be_switched_off(flag):
    out = lgx("arch", *flag.split(), "6-Small").out
    assert "6-Small" in out
    assert '"name"' not in out  # a table, not JSON


def test_a_flag_in_front_of_a_folder_leaves_the_folder_alone(tmp_path):
    result = lgx("compare", "--cost", tmp_path / "missing")
    assert result.code == 2
    assert "missing: no such file or folder" in result.sentence


def test_help_shows_flags_without_a_value():
    text = lgx("sweep", "--help").out
    assert "--dry_run, --no_dry_run" in text
    assert "--dry_run DRY_RUN" not in text
