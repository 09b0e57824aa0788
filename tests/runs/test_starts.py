"""Sweep files with starts: mistakes, runs, and shares of sources."""

import pytest

from lgx.core.rows import read_rows
from lgx.runs.starts import Cell
from lgx.runs.sweeps import load_sweep, needed_runs
from tests.support.command_line import lgx, refusal
from tests.support.starts import starts_content, write_starts


@pytest.fixture
def content(images, tmp_path):
    return starts_content(images, tmp_path)


MISTAKES = {
    "lacks": (lambda c: c.pop("budgets"), "lacks budgets"),
    "unknown": (lambda c: c.update(size={}), "unknown key"),
    "tasks": (lambda c: c.update(tasks=["a"]), "tasks is ['a'], expected a mapping from each name to options"),
    "negative": (lambda c: c.update(budgets=[-1]), "whole numbers of epochs"),
    "scratch": (lambda c: c.update(scratch="rand"), "scratch is 'rand', expected random or twin or sws"),
    "start": (lambda c: c["starts"]["sws"].update(option={}), "starts.sws: unknown key"),
    "variable": (lambda c: c["starts"]["sws"]["options"].update({"model.label": "{depth}"}), "unknown variable"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes_get_one_sentence(content, tmp_path, mistake):
    change, words = MISTAKES[mistake]
    change(content)
    result = lgx("sweep", write_starts(content, tmp_path), "--runs_dir", tmp_path / "runs")
    assert result.code != 0
    assert words in result.sentence
    assert "starts.yaml" in result.sentence


def test_a_missing_file_and_a_list_are_named(tmp_path):
    (tmp_path / "list.yaml").write_text("[1]")
    for name in ("none.yaml", "list.yaml"):
        assert name in refusal(lgx("sweep", tmp_path / name))


def test_every_start_trains_every_size_with_every_budget(content, tmp_path):
    runs = load_sweep(write_starts(content, tmp_path))
    cells = {spec.folder: cell for spec in runs.runs if (cell := runs.starts.cell_of(spec.name))}
    assert len(cells) == len(runs.runs) - 4
    assert sum(cell.start == "random" for cell in cells.values()) == 2 * 2 * 2
    tests = {spec.folder for spec in runs.runs if spec.command == "test"}
    assert tests == {folder for folder, cell in cells.items() if cell == Cell("shapes", "whole", "pretrained")}
    assert len(tests) == 2
    assert {spec.options.get("model.label") for spec in runs.runs if spec.folder in cells} == {*content["starts"]}


def test_the_ancestor_is_given_and_a_source_of_one_size_is_its_own(content, tmp_path):
    content["sources"]["small-{size}"] = content["sources"].pop("sws")
    content["starts"]["sws"]["options"]["model.initializer.source"] = "{runs}/small-{size}/seed{seed}/best"
    runs = load_sweep(write_starts(content, tmp_path))
    sharing = runs.starts.shares(needed_runs(runs), "runs")
    assert sharing["runs/tiny/shapes-half-sws-1/seed1"] == {"runs/tiny/small-half/seed1": 1}
    assert sharing["runs/tiny/shapes-whole-pretrained-0/seed1"] == {}


@pytest.mark.parametrize(("source", "cells"), [("sws", 4), ("sws-{task}", 2), ("sws-{size}", 2)])
def test_all_tasks_and_sizes_that_start_from_a_source_share_its_cost(source, cells, content, tmp_path):
    content["tasks"]["again"] = content["tasks"]["shapes"]
    content["sources"][source] = content["sources"].pop("sws")
    content["starts"]["sws"]["options"]["model.initializer.source"] = f"{{runs}}/{source}/seed{{seed}}/best"
    runs = load_sweep(write_starts(content, tmp_path))
    (shared,) = runs.starts.shares(needed_runs(runs), "runs")["runs/tiny/again-half-sws-1/seed1"].values()
    assert shared == cells


def test_a_failing_start_leaves_the_others(content, tmp_path):
    missing = {"model.initializer": "Pretrained", "model.initializer.source": str(tmp_path / "none.safetensors")}
    content["starts"] = {"random": content["starts"]["random"], "broken": {"options": missing}}
    content |= {"seeds": [0], "budgets": [1], "sizes": {"half": content["sizes"]["half"]}}
    del content["sources"], content["ancestor"]
    result = lgx("sweep", write_starts(content, tmp_path), "--runs_dir", tmp_path / "runs")
    assert result.code != 0
    assert "none.safetensors" in result.sentence
    assert {row.method for row in read_rows(tmp_path / "runs/tiny/measured.csv")} == {"random"}
