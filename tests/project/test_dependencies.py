"""The bounds of dependencies in pyproject.toml and the tested versions in constraints.txt belong together."""

import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
STATED = [*PROJECT["dependencies"], *(text for extra in PROJECT["optional-dependencies"].values() for text in extra)]
REQUIREMENTS = [requirement for text in STATED if (requirement := Requirement(text)).name != "lgx"]
LINES = (line.split("#")[0].strip() for line in (ROOT / "constraints.txt").read_text().splitlines())
TESTED = {canonicalize_name(line.split("==")[0]): Version(line.split("==")[1]) for line in LINES if line}


@pytest.mark.parametrize("requirement", REQUIREMENTS, ids=lambda requirement: requirement.name)
def test_the_tested_version_of_a_dependency_is_within_its_bounds(requirement: Requirement) -> None:
    lower = [specifier.version for specifier in requirement.specifier if specifier.operator == ">="]
    assert len(lower) == 1, "state one lower bound"
    tested = TESTED[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(tested, prereleases=True)
    assert Version(lower[0]) <= tested


def test_a_dependency_is_stated_once() -> None:
    names = [canonicalize_name(requirement.name) for requirement in REQUIREMENTS]
    assert len(names) == len(set(names))
