"""Every verdict rests on rows of a commit that the repository has."""

import subprocess

import pytest

from experiments.reproduce.recipes import load_recipes
from lgx.core.rows import read_rows
from tests.support.paths import ROOT

SCALES = [how for recipe in load_recipes().values() for how in recipe.scales.values()]
FILES = sorted({str(file) for how in SCALES for file in how.measured})


def git(*arguments):
    return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False)


def knows(commit):
    return git("cat-file", "-e", f"{commit}^{{commit}}").returncode == 0


@pytest.mark.parametrize("file", FILES)
def test_rows_of_verdicts_name_a_commit_of_this_repository(file):
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs a clone with its whole history")
    assert all(map(knows, {row.commit for row in read_rows(file)}))
