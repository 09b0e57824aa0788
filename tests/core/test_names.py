"""Names of experiments and runs stay below their folder, and in one line."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lgx.core.names import check_name
from lgx.core.seed import LARGEST_SEED, check_seed
from lgx.errors import UserError


@pytest.mark.parametrize(
    "name",
    ["a", "sws-8", "tal/mini", "depth=3,embed_dim=64", "a..b", ".hidden", "Größe 1", "seed", "b-{epoch}-{val/acc:.3f}"],
)
def test_ordinary_names_are_accepted(name):
    check_name(name, "--name")


@pytest.mark.parametrize(
    "name", ["", "../x", "a/../../x", "/etc", "a//b", "a/", "a/./b", "a\0b", "a\tb", "a\u202eb", "\ud800", "a/seed0"]
)
def test_other_names_are_refused_with_their_place(name):
    with pytest.raises(UserError, match=r"^--name: "):
        check_name(name, "--name")


@given(st.text(max_size=12, alphabet="a./\\\n~"))
def test_an_accepted_name_lies_below_the_folder(tmp_path_factory, name):
    root = tmp_path_factory.getbasetemp()
    try:
        check_name(name, "--name")
    except UserError:
        return
    assert root in (root / name).resolve().parents


def test_seeds_are_those_of_numpy():
    check_seed(0, "--seed")
    check_seed(LARGEST_SEED, "--seed")
    for seed in (-1, 2**32):
        with pytest.raises(
            UserError, match=r"--seed: a seed is a whole number from 0 to 4294967295 \(2\*\*32 - 1\), got"
        ):
            check_seed(seed, "--seed")
