"""Pages with measured numbers are what ``make pages`` writes from the committed rows, and follow them."""

import re
import subprocess
from dataclasses import replace

import pytest

from experiments.pages.render import Pages
from experiments.pages.sources import FAULTS
from experiments.pages.values import Refuted
from experiments.reproduce.hours import sweep_hours
from experiments.reproduce.recipes import load_recipes
from lgx.core.rows import read_rows
from tests.support.paths import EXPERIMENTS, ROOT

RESULTS = sorted((EXPERIMENTS / "results").glob("*.csv"))
OTHERS = (
    "backbones", "backbones_images", "backbones_knn", "backbones_latency", "deit_tiny_seconds", "family_trials",
    "lsamd_gates", "tal_guidance_norms", "tal_parameters", "text_recipe",
)  # fmt: skip
"""Files that have columns of their own."""


@pytest.fixture(scope="module")
def pages() -> Pages:
    return Pages()


@pytest.fixture(scope="module")
def written(pages: Pages) -> dict[str, tuple[str, frozenset[str]]]:
    """Page -> its text, and the files that it was made from."""
    return {name: (pages.render(name), frozenset(pages.sources.used)) for name in pages.names()}


@pytest.mark.parametrize("name", Pages().names())
def test_a_committed_page_is_what_make_pages_writes(written, name):
    assert (ROOT / name).read_text() == written[name][0], f"{name}: run make pages"


def test_every_file_of_results_is_used_by_a_page(written):
    used = frozenset().union(*(files for _, files in written.values()))
    assert {path.relative_to(ROOT).as_posix() for path in RESULTS} <= used


def test_a_refuted_conclusion_is_named_with_its_page_and_numbers(pages, monkeypatch):
    name, read = "experiments/results/sws_fashion_mnist.csv", pages.sources.read_rows
    worse = [replace(row, value=row.value / 2) if row.method == "sws" else row for row in read(name)]
    monkeypatch.setattr(pages.sources, "read_rows", lambda file: worse if file == name else read(file))
    with pytest.raises(Refuted) as refuted:
        pages.render("docs/results/sws.md")
    assert re.match(r"docs/results/sws.md, line \d+", str(refuted.value))


@pytest.mark.parametrize("method", FAULTS)
def test_pages_name_a_method_whose_rows_were_measured_with_a_fault_until_they_are_measured_again(
    pages, written, monkeypatch, method
):
    commits, sentence = FAULTS[method]
    read = pages.sources.read_rows
    for page, (text, _) in written.items():
        assert (sentence in text) == (f"| {method} |" in text), page
    monkeypatch.setattr(
        pages.sources,
        "read_rows",
        lambda file: [replace(row, commit="new" if row.commit in commits else row.commit) for row in read(file)],
    )
    assert not any(sentence in pages.render(page) for page, (text, _) in written.items() if sentence in text)


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_gpu_hours_are_those_that_the_plan_gives(pages):
    for line in pages.sources.cells("experiments/gpu_hours.csv"):
        if line["sweep"] not in ("tal/table2.yaml", "sws/table5.yaml"):  # of many runs: longer than all others together
            hours = sweep_hours(EXPERIMENTS / line["sweep"], 312, 0.4, "ham10000=7211").hours
            assert hours == pytest.approx(float(line["hours"]), rel=1e-3), line["sweep"]


def test_rows_name_their_hardware_and_have_one_value_for_each_measurement(pages):
    for path in RESULTS:
        name = path.relative_to(ROOT).as_posix()
        assert path.stem in OTHERS or all(row.hardware for row in pages.sources.read_rows(name)), path
    for recipe in load_recipes().values():
        for how in recipe.scales.values():
            found: dict[tuple[object, ...], float] = {}
            for row in (row for file in how.measured for row in pages.sources.read_rows(file)):
                value = found.setdefault(row.key[:-1], row.value)
                assert row.value == pytest.approx(value, rel=1e-4, nan_ok=True), (recipe.name, row.run)


def test_rows_of_verdicts_name_commits_of_this_repository():
    def git(*arguments):
        return subprocess.run(["git", "-C", ROOT, *arguments], capture_output=True, text=True, check=False)

    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("needs a clone with its whole history")
    scales = [how for recipe in load_recipes().values() for how in recipe.scales.values()]
    commits = {row.commit for file in {str(file) for how in scales for file in how.measured} for row in read_rows(file)}
    assert [commit for commit in commits if git("cat-file", "-e", f"{commit}^{{commit}}").returncode] == []
