"""``python -m experiments.reproduce``: the index of tables and figures, its steps, and verdicts on claims."""

import shlex
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest
import yaml

from experiments.reproduce.claims import Claim
from experiments.reproduce.judging import Judging, compare_and_judge, judge_claim
from experiments.reproduce.paper import load_table, table_names
from experiments.reproduce.recipes import load_recipe, load_recipes
from lgx.cli import COMMANDS, TRAINING
from lgx.core.rows import write_rows
from lgx.errors import UserError
from lgx.results.comparison import Options
from tests.results.helpers import seeds as rows
from tests.support.command_line import ok, refusal, reproduce

RECIPES = load_recipes()
STEPS = sorted({str(step) for recipe in RECIPES.values() for how in recipe.scales.values() for step in how.steps})
TABLES = {"tal": 9, "lsamd": 6, "sws": 6}
FIGURES = ["tal/figure3", *(f"lsamd/figure{k}" for k in range(4, 8)), "sws/figure1d", "sws/figure4", "sws/figure5"]


def test_every_table_and_figure_of_the_papers_is_in_the_index():
    expected = {f"{paper}/table{k}" for paper, count in TABLES.items() for k in range(1, count + 1)} | set(FIGURES)
    assert expected | {"tal/convergence", "tal/parameters"} <= RECIPES.keys()
    listed = ok(reproduce("--list"))
    assert all(name in listed.out for name in RECIPES)


def test_every_table_has_the_papers_scale_and_a_pocket_one_and_names_its_numbers():
    for recipe in RECIPES.values():
        is_ours = recipe.title.endswith("(ours)")
        assert is_ours or {"pocket", "paper"} <= recipe.scales.keys(), recipe.name
        assert not (is_ours and recipe.claims), recipe.name
        if recipe.name in table_names():
            assert recipe.numbers == recipe.name


@pytest.mark.parametrize("step", STEPS)
def test_a_step_names_a_command_and_files_that_exist(step):
    _, command, *rest = shlex.split(step)
    assert command in {**COMMANDS, **TRAINING}
    for word in rest:
        if word.startswith("experiments/"):
            assert Path(word).is_file(), word


def test_an_index_marks_claims_that_it_has(tmp_path):
    entry = {"title": "x", "claims": ["tal > logah"], "mini": {"confounded": {"tal > logah": "steps"}}}
    index = tmp_path / "index.yaml"
    index.write_text(yaml.safe_dump({"a": entry}))
    assert load_recipe("a", index).judging("mini").confounded == {Claim("tal", "logah"): "steps"}
    index.write_text(yaml.safe_dump({"a": entry | {"claims": []}}))
    with pytest.raises(UserError, match="confounded: 'tal > logah' is no claim of this entry"):
        load_recipe("a", index)


def test_a_report_says_what_the_sides_of_a_claim_ran_and_what_would_decide_it(tmp_path):
    ok(reproduce("lsamd/figure6", "--scale", "mini", "--measured", "--out", tmp_path / "report"))
    text = " ".join(unescape((tmp_path / "report/report.html").read_text()).split())
    assert (
        "lsamd > random_long, trained, own epochs: lsamd: 3 epochs; random_long: 12 epochs; lsamd is lsamd_priced."
        in text
    )
    assert "seeds would decide, if mean and deviation stayed as measured." in text


def test_rows_of_another_label_may_stand_for_a_method(tmp_path):
    write_rows(tmp_path / "results.csv", [*rows("tal_from_scratch", [0.5, 0.6]), *rows("logah", [0.2, 0.3])])
    options = Options(labels={"tal_from_scratch": "tal"}, methods=("tal", "logah"))
    found, (verdict,) = compare_and_judge([tmp_path / "results.csv"], options, Judging((Claim("tal", "logah"),)))
    assert verdict.measured.summary.mean == pytest.approx(30)
    assert verdict.differs == "tal is tal_from_scratch"
    assert {row.method for row in found.rows} == {"tal", "logah"}


def test_a_task_may_be_judged_on_its_own_metric(tmp_path):
    measured = [
        replace(row, metric=metric, value=value * row.value)
        for task, metric, value in (("cola", "acc", 0.1), ("cola", "mcc", 1), ("rte", "acc", 1))
        for row in [*rows("tal", [0.5, 0.6], task=task), *rows("logah", [0.2, 0.3], task=task)]
    ]
    write_rows(tmp_path / "results.csv", measured)
    options = Options("acc", task_metrics={"cola": "mcc", "mrpc": "f1"})
    judging = Judging((Claim("tal", "logah"),), numbers="tal/table6")
    found, (verdict,) = compare_and_judge([tmp_path / "results.csv"], options, judging)
    assert (verdict.cells, verdict.measured.summary.mean) == (2, pytest.approx(30))
    averages = (69.98 - 71.01, 2.75 - 0.82, 48.02 - 47.47, 62.39 - 55.37)  # the last lines of the paper's table
    assert verdict.paper == pytest.approx(sum(averages) / 4, abs=0.01)
    titles = [table.title for section in found.report.sections for table in section.tables]
    words = " ".join([*titles, *(section.title for section in found.report.sections)])
    assert "ccuracy" in words
    assert "Matthews" in words


def test_every_claim_with_printed_numbers_is_right_in_the_paper():
    for recipe in RECIPES.values():
        how = recipe.scales.get("paper")
        if recipe.numbers and how and how.results:
            paper = load_table(recipe.numbers).of_split(how.options.split)
            for claim in recipe.claims:
                printed = judge_claim(claim, [], recipe.judging("paper"), how.options, paper).paper
                assert printed is None or printed > claim.is_stored, f"{recipe.name}: {claim} is {printed}"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with an index, in which commands run."""
    (tmp_path / "experiments").mkdir()
    for name in ("paper_numbers.yaml", "sws", "tal"):
        (tmp_path / "experiments" / name).symlink_to(Path("experiments").resolve() / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_index(place: Path, **entry: object) -> None:
    (place / "experiments" / "index.yaml").write_text(yaml.safe_dump({"sws/table3": {"title": "T", **entry}}))


def test_a_table_is_reproduced_from_nothing_and_again_from_existing_runs(place):
    options = {"model.arch": "depth=1,embed_dim=24,num_heads=2,patch_size=8,img_size=32", "trainer.max_epochs": 1}
    trained = {"config": str(Path("experiments/sws/demo/ancestor.yaml").absolute()), "options": options}
    sweep = {"experiment": "e", "seeds": [0, 1], "runs": [{"name": "a", **trained}]}
    (place / "s.yaml").write_text(yaml.safe_dump(sweep))
    runs = [f"runs/e/a/seed{seed}/final.learngene.safetensors" for seed in (0, 1)]
    scale = {
        "steps": ["data prepare pocket_digits --root data", "sweep s.yaml"],
        "results": "runs/e",
        "show": [f"parameters --start {runs[0]} --trained {runs[1]}", "arch 6-Tiny"],
    }
    write_index(place, claims=["ancestor > random"], pocket=scale)
    first = ok(reproduce("sws/table3"))
    assert "2 of 2 runs to do" in first.out
    assert "ancestor > random" in first.out
    assert "not measured" in first.out
    assert "change magnitude" in first.out
    assert "6-Tiny" in first.out
    report = place / "runs/reproduce/pocket/sws/table3"
    assert "ancestor &gt; random" in (report / "report.html").read_text()
    assert "0 of 2 runs to do" in ok(reproduce("sws/table3")).out
    planned = reproduce("sws/table3", "--dry_run")
    assert "lgx sweep s.yaml" in planned.out
    assert "runs to do" not in planned.out


def test_committed_rows_are_shown_without_a_run(place):
    write_rows(place / "rows.csv", [*rows("sws", [0.5, 0.6, 0.7]), *rows("simple_lg", [0.4, 0.5, 0.6])])
    write_index(place, claims=["sws > simple_lg"], mini={"steps": "sweep missing.yaml", "measured": "rows.csv"})
    result = ok(reproduce("sws/table3", "--scale", "mini", "--measured"))
    assert "+17.52" in result.out
    assert "sws > simple_lg" in result.out


@pytest.mark.parametrize("name", ["report.html", "figure.svg"])
def test_a_foreign_file_in_the_folder_is_named_before_a_step_runs(place, name):
    show = "paths --runs a --out {out}/figure.svg"
    write_index(place, pocket={"steps": "sweep missing.yaml", "results": "rows.csv", "show": show})
    (place / "out").mkdir()
    (place / "out" / name).write_text("mine")
    assert f"out/{name}: exists" in refusal(reproduce("sws/table3", "--out", "out"))
    assert "missing.yaml" in reproduce("sws/table3", "--out", "out", "--force").sentence
    assert (place / "out" / name).read_text() == "mine"


@pytest.mark.parametrize(
    ("entry", "options", "words"),
    [
        ({"pocket": {}}, ["--scale", "mini"], "--scale mini: sws/table3 has pocket"),
        ({"pocket": {"steps": "data list"}}, ["--measured"], "was not measured at pocket scale"),
        ({"pocket": {"step": "data list"}}, [], "unknown key step"),
        ({"pocket": {}, "claims": ["a over b"]}, [], "expected 'METHOD > METHOD'"),
        ({"pocket": {}, "numbers": "sws/table99"}, [], "no such table"),
        ({}, [], "at least one of pocket, mini and paper"),
    ],
)  # fmt: skip
def test_a_wrong_index_or_option_ends_with_one_sentence(place, entry, options, words):
    write_index(place, **entry)
    assert words in refusal(reproduce("sws/table3", *options))


def test_outside_the_repository_or_for_an_unknown_table_the_message_says_so(tmp_path, monkeypatch):
    sentence = refusal(reproduce("sws/tabel3"))
    assert "sws/table3" in sentence
    assert "python -m experiments.reproduce: " in sentence
    monkeypatch.chdir(tmp_path)
    assert "run from the repository's folder" in reproduce("--list").sentence
