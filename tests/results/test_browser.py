"""Reports in a real browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.browser import Browser, browser
from tests.support.command_line import arguments, lgx, ok
from tests.support.paths import EXPERIMENTS

ROWS = EXPERIMENTS / "results"


@pytest.fixture(scope="module")
def runs(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A short run with curves."""
    folder = tmp_path_factory.mktemp("runs")
    command = arguments("fit", "Finetune", images, folder, "--name=shapes-3-random", "--model.initializer=RandomStart")
    assert lgx(*command, "--trainer.max_epochs=2", "--trainer.log_every_n_steps=1", "--test_end=true").code == 0
    return folder


BESIDE_THE_SCREEN = """
const width = document.documentElement.clientWidth, found = [];
for (const element of document.querySelectorAll("body *")) {
  const inside = element.parentElement.closest(".scroll, svg");
  const box = element.getBoundingClientRect();
  if (!inside && (box.right > width + 1 || box.left < -1)) found.push(element.outerHTML.slice(0, 200));
}
if (document.documentElement.scrollWidth > width) found.push("the page scrolls sideways");
return found;
"""
INK = """
const color = text => text.match(/[0-9.]+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3;
const paper = color(getComputedStyle(document.body).backgroundColor);
const inks = [...document.querySelectorAll("svg text")].map(text => color(getComputedStyle(text).fill));
const lines = [...document.querySelectorAll("figure path")].map(path => getComputedStyle(path).stroke);
const black = lines.filter(line => line == (paper < 128 ? "rgb(0, 0, 0)" : "rgb(255, 255, 255)")).length;
return {paper, ink: inks.length ? inks : [255 - paper], lost: black};
"""
UNNAMED = """
const named = element => element.getAttribute("aria-label") || element.getAttribute("aria-hidden") == "true";
const pictures = [...document.querySelectorAll("svg")].filter(svg => !named(svg) && !svg.closest("[role=img]"));
const heads = [...document.querySelectorAll("th")].filter(head => !head.scope);
const boxes = [...document.querySelectorAll(".scroll")].filter(box => box.tabIndex != 0 || !named(box));
return [...pictures, ...heads, ...boxes].map(element => element.outerHTML.slice(0, 200));
"""


@pytest.fixture(scope="module")
def window(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A browser's window."""
    with browser(tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def reports(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of one run, of few methods, of many, and of starts at equal compute."""
    folder = tmp_path_factory.mktemp("reports")
    sources = {"run": runs, **{name: ROWS / f"{name}.csv" for name in ("text_mini", "tal_layout", "arena_mini")}}
    for name, source in sources.items():
        ok(lgx("compare", source, "--out", folder / name))
    return {name: folder / name / "report.html" for name in sources}


@pytest.mark.parametrize(
    ("width", "scheme"),
    [
        (1280, "light"),
        (390, "dark"),
        pytest.param(1280, "dark", marks=pytest.mark.slow),
        pytest.param(390, "light", marks=pytest.mark.slow),
    ],
)
def test_reports_fit_phones_and_desks_in_the_light_and_in_the_dark(width, scheme, window, reports):
    for name, page in reports.items():
        window.look(width, scheme == "dark")
        window.open(page.as_uri())
        assert window.run("return document.documentElement.clientWidth") == width
        assert window.run(BESIDE_THE_SCREEN) == [], name
        assert window.run(UNNAMED) == [], name
        shades = window.run(INK)
        assert (shades["paper"] < 60) == (scheme == "dark")
        assert all(abs(ink - shades["paper"]) > 150 for ink in shades["ink"]), name
        assert shades["lost"] == 0, name
        assert window.console() == [], name
        assert [url for url in window.requests() if not url.startswith(("file:", "data:"))] == [], name


def test_the_page_of_a_run_fits_a_phone(window, runs):
    window.look(390, dark=False)
    window.open(next(runs.rglob("report.html")).as_uri())
    assert window.run(BESIDE_THE_SCREEN) == []
    assert window.run(UNNAMED) == []
