"""Workflows, hooks, image and citation name what exists, and one version."""

import re
import subprocess
import tomllib

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from experiments.reproduce.recipes import load_recipes
from lgx.core.rows import read_rows
from tests.support.paths import ROOT

WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z][\w-]*):", MAKEFILE, re.MULTILINE))


def load(path):
    """A workflow; YAML reads its key ``on`` as true."""
    read = yaml.safe_load(path.read_text())
    return {("on" if key is True else key): value for key, value in read.items()}


def steps(workflow):
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_calls_targets_that_exist_and_pinned_actions(path):
    workflow = load(path)
    assert workflow["on"]
    assert workflow["permissions"] == {"contents": "read"}, "more is given to single jobs"
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 360
        assert set(job.get("needs", "").split()) <= set(workflow["jobs"])
    runs = [step["run"] for step in steps(workflow) if "run" in step]
    assert runs
    assert [run for run in runs if not re.fullmatch(r'make [a-z-]+( TAG="\$GITHUB_REF_NAME")?', run)] == []
    assert {run.split()[1] for run in runs} <= TARGETS
    uses = re.findall(r"uses: (.*)", path.read_text())
    assert len(uses) == sum("uses" in step for step in steps(workflow))
    assert [use for use in uses if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", use)] == []


def test_the_image_holds_what_the_wheel_is_built_from_and_runs_without_root():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    assert [line.split()[1] for line in lines if line.startswith("USER")] == ["1000"]
    ignored = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if not line.startswith("#")]
    assert ignored[0] == "*"
    kept = {line[1:] for line in ignored if line.startswith("!")}
    assert kept >= {"pyproject.toml", "constraints.txt", PROJECT["readme"], *PROJECT["license-files"]}
    assert [name for name in kept if not (ROOT / name).exists()] == []
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]["find"]["include"]
    assert {pattern.rstrip("*") for pattern in packages} <= kept


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
