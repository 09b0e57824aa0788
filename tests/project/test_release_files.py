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
from tests.support.minimum import oldest
from tests.support.paths import ROOT
from tests.support.release import PLACES, differences

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


def test_a_tag_is_refused_if_a_place_has_another_version(tmp_path):
    for place in PLACES:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "lgx/core/version.py").write_text('"""The version."""\n\n__version__ = "1.2.3"\n')
    (tmp_path / "CITATION.cff").write_text("cff-version: 1.2.0\nversion: 1.2.3\n")
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n\n## [1.2.3] - 2026-11-24\n\n## [1.2.2]\n")
    assert differences("v1.2.3", tmp_path) == []
    assert differences("1.2.3", tmp_path) == ["tag '1.2.3': expected v and a version, e.g. v1.2.3"]
    assert len(differences("v1.2.4", tmp_path)) == len(PLACES)
    (tmp_path / "CHANGELOG.md").write_text("## [Unreleased]\n")
    assert differences("v1.2.3", tmp_path) == ["CHANGELOG.md: has no version, the tag is v1.2.3"]


def test_the_oldest_versions_are_the_lower_bounds():
    found = oldest(ROOT / "pyproject.toml")
    assert found["torch"] == re.search(r'"torch>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())[1]
    assert {"jsonargparse", "transformers", "submitit", "torch-pruning"} <= found.keys()
    assert not found.keys() & {"pytest", "ruff", "mkdocs"}


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
