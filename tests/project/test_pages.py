"""Pages with measured numbers are what ``make pages`` writes from the committed rows, and follow them."""

import re
import subprocess
from dataclasses import replace

import pytest

from experiments.pages.render import Pages
from experiments.pages.values import Refuted
from experiments.reproduce.hours import sweep_hours
from experiments.reproduce.recipes import load_recipes
from lgx.core.rows import read_rows
from tests.support.paths import EXPERIMENTS, ROOT

RESULTS = sorted((EXPERIMENTS / "results").glob("*.csv"))
OTHERS = (
    "backbones", "backbones_images", "backbones_knn", "backbones_latency", "deit_tiny_seconds",
    "family_compute", "family_heads", "family_trials",
    "lsamd_gates", "tal_guidance_norms", "tal_parameters", "text_recipe",
)  # fmt: skip
"""Files that have columns of their own."""


@pytest.fixture(scope="module")
def pages() -> Pages:
    return Pages()


@pytest.mark.parametrize("name", Pages().names())
def test_a_committed_page_is_what_make_pages_writes(pages, name):
    assert (ROOT / name).read_text() == pages.render(name), f"{name}: run make pages"


def test_a_refuted_conclusion_is_named_with_its_page_and_numbers(pages, monkeypatch):
    name, read = "experiments/results/sws_fashion_mnist.csv", pages.sources.read_rows
    worse = [replace(row, value=row.value / 2) if row.method == "sws" else row for row in read(name)]
    monkeypatch.setattr(pages.sources, "read_rows", lambda file: worse if file == name else read(file))
    with pytest.raises(Refuted) as refuted:
        pages.render("docs/results/sws.md")
    assert re.match(r"docs/results/sws.md, line \d+", str(refuted.value))


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
