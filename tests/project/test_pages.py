"""Pages with measured numbers are what ``make pages`` writes from the committed rows, and follow them."""

import random
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from experiments.pages import values
from experiments.pages.render import Pages
from experiments.pages.sources import FAULTS
from experiments.pages.values import Refuted
from experiments.reproduce.hours import sweep_hours
from experiments.reproduce.recipes import load_recipes
from lgx.core.rows import Row, read_rows
from tests.support.paths import EXPERIMENTS, ROOT

RESULTS = sorted((EXPERIMENTS / "results").glob("*.csv"))
OTHERS = ("deit_tiny_seconds", "family_trials", "lsamd_gates", "tal_guidance_norms", "tal_parameters", "text_recipe")
"""Files that have columns of their own."""
LIMITS = {"README.md": 160, "experiments/README.md": 250}
SHOWN: set[Row] = set()
"""Rows that some page inserts or guards, except those of the arena, all of which its tables show."""


@pytest.fixture(scope="module")
def pages() -> Pages:
    return Pages()


@pytest.fixture(scope="module")
def written(pages: Pages) -> dict[str, tuple[str, frozenset[str]]]:
    """Page -> its text, and the files that it was made from."""
    with pytest.MonkeyPatch.context() as patch:
        matches = values._matches
        patch.setattr(values, "_matches", lambda row, where: matches(row, where) and not SHOWN.add(row))
        return {name: (pages.render(name), frozenset(pages.sources.used)) for name in pages.names()}


@pytest.mark.parametrize("name", Pages().names())
def test_a_committed_page_is_what_make_pages_writes(written, name):
    assert (ROOT / name).read_text() == written[name][0], f"{name}: run make pages"
    assert len(written[name][0].splitlines()) <= LIMITS.get(name, 300)


@pytest.mark.parametrize("name", Pages().names())
def test_every_table_has_as_many_cells_in_each_line(written, name):
    for table in re.findall(r"(?:^\|.*\|\n)+", written[name][0], re.MULTILINE):
        counts = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(counts) == 1, table


def test_every_file_of_results_is_used_by_a_page(written):
    used = frozenset().union(*(files for _, files in written.values()))
    assert {path.relative_to(ROOT).as_posix() for path in RESULTS} <= used


def is_shown(row: Row | Mapping[str, str]) -> bool:
    """Whether pages show a row; of seconds those of one data set, of norms those of the two parts of the loss."""
    if isinstance(row, Row):
        is_tested = (row.split, row.metric) == ("test", "acc")
        of_length = row.run.startswith("runs/tal_length") and row.method.startswith("tal_") and row.epochs > 0
        return row in SHOWN or (is_tested and (of_length or row.run.startswith("runs/arena_mini")))
    if "form" in row:
        of_page = (row["split"], row["updates"]) == ("test", "400") and row["task"] in ("flowers12", "dtd10")
        return of_page and row["size"] != "4x128"
    return "dtd10" not in row.get("run", "") and row.get("part") != "loss_norms"


def changed(row: Any) -> Any:
    """The row with another value."""
    if isinstance(row, Row):
        return replace(row, value=3 * row.value + 0.2)
    column = next(key for key in ("seconds", "norm", "base_share", "trained", "accuracy") if key in row)
    return {**row, column: str(1 - float(row[column]) if column == "base_share" else 3 * float(row[column]))}


def test_most_measured_accuracies_are_shown(pages, written):
    read = [path for path in RESULTS if path.stem not in (*OTHERS, "arena_mini", "tal_length")]
    rows = [row for path in read for row in read_rows(path)]
    tested = [row for row in rows if (row.split, row.metric) == ("test", "acc")]
    assert len(SHOWN.intersection(tested)) > 0.85 * len(tested)


@pytest.mark.parametrize("path", RESULTS, ids=lambda path: path.stem)
def test_a_changed_row_changes_a_page_or_fails_a_guard(pages, written, monkeypatch, path):
    name = path.relative_to(ROOT).as_posix()
    own = [
        page for page, (_, files) in written.items() if name in files and "results/" in page and "verdicts" not in page
    ]
    reader = "read_cells" if path.stem in OTHERS else "read_rows"
    read = getattr(pages.sources, reader)
    rows = list(read(name))
    shown = [number for number, row in enumerate(rows) if is_shown(row)]
    number = random.Random(path.stem).choice(shown)
    others = [*rows[:number], changed(rows[number]), *rows[number + 1 :]]
    monkeypatch.setattr(pages.sources, reader, lambda file: others if file == name else read(file))
    assert any(differs(pages, page, written[page][0]) for page in own)


def differs(pages: Pages, page: str, text: str) -> bool:
    try:
        return pages.render(page) != text
    except Refuted:
        return True


def test_a_refuted_conclusion_is_named_with_its_page_and_numbers(pages, monkeypatch):
    name, read = "experiments/results/sws_fashion_mnist.csv", pages.sources.read_rows
    worse = [replace(row, value=row.value / 2) if row.method == "sws" else row for row in read(name)]
    monkeypatch.setattr(pages.sources, "read_rows", lambda file: worse if file == name else read(file))
    with pytest.raises(Refuted) as refuted:
        pages.render("docs/results/sws.md")
    assert re.match(
        r"docs/results/sws.md, line \d+ of its template: the rows no longer say that SWS", str(refuted.value)
    )
    assert re.search(r"-\d+\.\d ± \d+\.\d", str(refuted.value))


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


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_gpu_hours_are_those_that_the_plan_gives(pages):
    for line in pages.sources.cells("experiments/gpu_hours.csv"):
        if line["sweep"] not in ("tal/table2.yaml", "sws/table5.yaml"):  # of many runs: longer than all others together
            hours = sweep_hours(EXPERIMENTS / line["sweep"], 312, 0.4, "ham10000=7211").hours
            assert hours == pytest.approx(float(line["hours"]), rel=1e-3), line["sweep"]
