"""The suites of ``benchmarks`` measure every part, as ratios to a reference of the same run."""

import csv

import pytest

import benchmarks.__main__ as suites
from benchmarks.runner import Measurement, run
from benchmarks.steps import device
from tests.support.command_line import ARCH, lgx, ok


def number(text):
    """The number that a cell holds, or its words."""
    try:
        return float(text)
    except ValueError:
        return text


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Run a suite on a small network; returns its rows."""
    monkeypatch.setattr(suites, "SIZES", {"tiny": ARCH})
    monkeypatch.setattr("benchmarks.loaders._IMAGES", 32)
    monkeypatch.setattr("benchmarks.fit_steps.WARM_UP", 1)

    def rows(*words):
        suites.main([*map(str, words), "--csv", str(tmp_path / "rows.csv")])
        with open(tmp_path / "rows.csv", newline="") as file:
            return [{key: number(value) for key, value in row.items() if value} for row in csv.DictReader(file)]

    return rows


@pytest.fixture
def config(fit, tmp_path):
    """The configuration of a run."""
    assert fit("Ancestor", "--name=measured").code == 0
    return tmp_path / "runs" / "test" / "measured" / "seed0" / "config.yaml"


def test_a_hypernetwork_is_compared_with_an_ordinary_step(measured):
    rows = {row["what"]: row for row in measured("hypernet", "--size=tiny", "--batch=2", "--repeats=1")}
    assert set(rows) == {"ordinary_step", "hyper_step", "predict", "graph"}
    assert rows["ordinary_step"]["ratio"] == 1
    assert all(row["seconds"] > 0 and row["peak_mb"] >= 0 and row["batch"] == 2 for row in rows.values())
    shares = [value for key, value in rows["hyper_step"].items() if key.startswith("share_")]
    assert len(shares) == 4
    assert sum(shares) == pytest.approx(1, rel=1e-3)
    assert rows["predict"]["to_products"] > 0


def test_a_step_of_fit_is_compared_with_a_bare_loop_and_leaves_no_run(measured, config, tmp_path):
    rows = {row["what"]: row for row in measured("fit", config, "--steps=3", "--repeats=1")}
    assert set(rows) == {"bare_loop", "fit_step"}
    ratio = rows["fit_step"]["seconds"] / rows["bare_loop"]["seconds"]
    assert rows["fit_step"]["ratio"] == pytest.approx(ratio, rel=2e-3)
    assert not [path for path in (tmp_path / "runs" / "test").iterdir() if path.name != "measured"]


@pytest.mark.slow
def test_the_kit_measures_every_part_and_a_run_of_each_method(measured, monkeypatch, tmp_path):
    monkeypatch.setitem(suites.KITS, device(), suites.Kit(("tiny",), (2,), ARCH, 16, 2, 1))
    monkeypatch.setitem(suites.METHODS, "MiniDeiT", ("--model.stages=[2,2]",))
    for name in {*suites.METHODS} - {"MiniDeiT", "LSAMD", "Nested"}:
        monkeypatch.delitem(suites.METHODS, name)
    ok(lgx("data", "prepare", "pocket", "--root", tmp_path))
    rows = measured("steps", "--root", tmp_path)
    assert [row["suite"] for row in rows] == ["fit"] * 2 + ["hypernet"] * 8 + ["data"] * 5 + ["shared_layers"] * 6
    assert all(row["seconds"] > 0 and row["device"] for row in rows)
    rows = measured("methods", "--root", tmp_path)
    assert [row["what"] for row in rows] == ["MiniDeiT", "Nested", "LSAMD"]
    assert all(row["planned_mb"] > 0 and row["images_per_s"] > 0 for row in rows)


def test_what_fails_or_finds_no_time_or_memory_is_noted():
    def full():
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")

    (row,) = run([Measurement({"suite": "hypernet"}, full)])
    assert row["failure"] == "the memory of the GPU is too small"
    (row,) = run([Measurement({"suite": "fit"}, lambda: [{}["nothing"]])])
    assert row["failure"] == "'nothing'"
    (row,) = run([Measurement({"suite": "data"}, full)], minutes=0)
    assert row["failure"] == "not measured within 0 minutes"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["hypernet", "--size=huge"], "--size: unknown value huge; choose from tiny, small, base"),
        (["data", "--batch=0"], "--batch: expected whole numbers of at least 1, got 0"),
        (["fit", "nothing.yaml"], "config nothing.yaml: no such file"),
    ],
)
def test_a_wrong_value_ends_a_suite_with_one_sentence(words, sentence):
    with pytest.raises(SystemExit, match=sentence):
        suites.main(words)
