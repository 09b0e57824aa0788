"""The suites of ``benchmarks`` measure every part, as ratios to a reference of the same run."""

import json

import pytest
import torch

import benchmarks.__main__ as suites
from benchmarks.runner import Measurement, run
from tests.support.command_line import ARCH


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Run a suite on a small network; returns its rows."""
    monkeypatch.setattr(suites, "SIZES", {"tiny": ARCH})
    monkeypatch.setattr("benchmarks.loaders._IMAGES", 32)
    monkeypatch.setattr("benchmarks.fit_steps.WARM_UP", 1)

    def rows(*words):
        suites.main([*map(str, words), "--json", str(tmp_path / "rows.json")])
        return json.loads((tmp_path / "rows.json").read_text())

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
    assert sum(shares) == pytest.approx(1)
    assert rows["predict"]["to_products"] > 0


def test_a_step_of_fit_is_compared_with_a_bare_loop_and_leaves_no_run(measured, config, tmp_path):
    rows = {row["what"]: row for row in measured("fit", config, "--steps=3", "--repeats=1")}
    assert set(rows) == {"bare_loop", "fit_step"}
    assert rows["fit_step"]["ratio"] == rows["fit_step"]["seconds"] / rows["bare_loop"]["seconds"]
    assert not [path for path in (tmp_path / "runs" / "test").iterdir() if path.name != "measured"]


@pytest.mark.slow
def test_a_kit_measures_every_part(measured, config, monkeypatch):
    monkeypatch.setattr(torch.nn.Module, "compile", lambda self, **options: None)  # takes a minute on a CPU
    monkeypatch.setattr(suites, "KIT", suites.Kit((2,), ("tf32",), pixels=16, repeats=1))
    rows = measured("kit", "--files", config)
    assert {row["suite"] for row in rows} == {"fit", "data", "hypernet", "shared_layers"}
    assert all(row["seconds"] > 0 and row["device"] for row in rows)
    steps = [row for row in rows if row["what"] == "hyper_step"]
    assert {(row["precision"], row["decoder"], row.get("compiled", False)) for row in steps} == {
        ("tf32", "low_rank", False), ("tf32", "conv", False), ("bf16", "low_rank", True),
    }  # fmt: skip
    assert {row["what"] for row in rows if row["suite"] == "data"} == {
        "torchvision", "webdataset", "folder", "shards", "cache",
    }  # fmt: skip
    assert [row["what"] for row in rows if row["suite"] == "shared_layers"] == [
        "ordinary_step", "shared_step", "distilled_step", "forward", "slices", "separate",
    ]  # fmt: skip


def test_what_finds_no_time_or_memory_is_noted():
    def full():
        raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")

    (row,) = run([Measurement({"suite": "hypernet"}, full)])
    assert row["failure"] == "the memory of the GPU is too small"
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
