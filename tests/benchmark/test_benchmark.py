"""``lgx bench`` reports the time and memory of steps as ratios to an ordinary step."""

import json

import pytest

from tests.support.command_line import lgx


def test_numbers_below_one_are_refused():
    for option in ("--batch", "--repeats"):
        assert "at least 1" in lgx("bench", option, 0).sentence


@pytest.mark.slow
def test_bench_reports_ratios(tmp_path):
    result = lgx("bench", "--repeats", 1, "--batch", 1, "--size", "tiny", "--json", tmp_path / "bench.json")
    assert result.code == 0, result.err
    rows = {row["what"]: row for row in json.loads((tmp_path / "bench.json").read_text())}
    assert set(rows) == {"ordinary_step", "hyper_step", "predict", "graph"}
    assert rows["ordinary_step"]["ratio"] == 1
    for row in rows.values():
        assert row["size"] == "tiny"
        assert row["batch"] == 1
        assert row["seconds"] > 0
        assert row["peak_mb"] >= 0
    shares = [value for key, value in rows["hyper_step"].items() if key.startswith("share_")]
    assert sum(shares) == pytest.approx(1)
    assert len(shares) == 4
    assert rows["hyper_step"]["dense_mb"] == pytest.approx(4 * 5_717_416 / 2**20)  # DeiT-Tiny


@pytest.mark.slow
def test_bench_of_shared_layers_reports_ratios(tmp_path):
    result = lgx(
        "bench", "--suite=shared_layers", "--size=tiny", "--repeats=1", "--batch=1", "--json", tmp_path / "bench.json"
    )
    assert result.code == 0, result.err
    rows = json.loads((tmp_path / "bench.json").read_text())
    assert [row["what"] for row in rows] == ["ordinary_step", "shared_step", "distilled_step", "forward"]


def test_bench_of_fit_compares_a_configuration_with_a_bare_loop(fit, tmp_path):
    assert fit("Ancestor", "--name=measured").code == 0
    config = tmp_path / "runs" / "test" / "measured" / "seed0" / "config.yaml"
    result = lgx("bench", "--suite=fit", config, "--steps=3", "--repeats=1", "--json", tmp_path / "b.json")
    assert result.code == 0, result.err
    rows = {row["what"]: row for row in json.loads((tmp_path / "b.json").read_text())}
    assert set(rows) == {"bare_loop", "fit_step"}
    assert rows["fit_step"]["ratio"] == rows["fit_step"]["seconds"] / rows["bare_loop"]["seconds"]
    assert not [path for path in (tmp_path / "runs" / "test").iterdir() if path.name != "measured"]


def test_bench_of_fit_names_what_is_missing(tmp_path):
    assert "config" in lgx("bench", "--suite=fit").sentence
    assert "nothing.yaml: no such file" in lgx("bench", "--suite=fit", "nothing.yaml").sentence
    assert "suite: expected one of 'hypernet'" in lgx("bench", "--suite", "all").sentence
    assert "got nothing" in lgx("bench", "--suite").sentence
    assert "shared_layers" in lgx("bench", "--help").out


def test_bench_of_data_measures_all_ways_to_read_images(tmp_path, monkeypatch):
    monkeypatch.setattr("lgx.benchmark.loaders._IMAGES", 64)
    options = ("--batch=16", "--repeats=1", "--img_size=16")
    result = lgx("bench", "--suite=data", *options, "--json", tmp_path / "b.json")
    assert result.code == 0, result.err
    rows = {row["what"]: row for row in json.loads((tmp_path / "b.json").read_text())}
    assert set(rows) == {"torchvision", "webdataset", "folder", "shards", "cache"}
    assert rows["torchvision"]["ratio"] == 1
    assert all(row["images_per_s"] > 0 for row in rows.values())
