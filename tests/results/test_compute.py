"""Methods at equal compute: a sweep with starts that was run, and curves that are known."""

from math import inf
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.core.rows import read_rows
from lgx.results.compute import (
    FLOPS,
    SHARED,
    Point,
    at_compute,
    best_within,
    compute_sections,
    lead_at_equal_compute,
    read_curves,
)  # fmt: skip
from lgx.results.merging import read_summary
from lgx.results.run_records import RunRecord
from lgx.results.sweep_costs import longer_scratch, rows_by_start
from lgx.runs.sweeps import load_sweep
from tests.support.command_line import Result, lgx, ok
from tests.support.starts import starts_content, write_starts


@pytest.fixture(scope="module")
def measured(images: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Result]:
    """Folder of a sweep with starts that was run, with ``starts.yaml`` and ``runs``, and what the command printed."""
    folder = tmp_path_factory.mktemp("starts")
    file = write_starts(starts_content(images, folder) | {"seeds": [0]}, folder)
    return folder, ok(lgx("sweep", file, "--runs_dir", folder / "runs"))


@pytest.fixture(scope="module")
def curves(measured: tuple[Path, Result]):
    folder, _ = measured
    starts = load_sweep(folder / "starts.yaml").starts
    return read_curves(rows_by_start(starts, read_rows(folder / "runs/tiny/measured.csv")), "acc")


def test_a_copy_of_a_start_has_its_curve(curves):
    for size in ("full", "half"):
        original, copy = curves["random"]["shapes", size][0], curves["twin"]["shapes", size][0]
        assert (original.accuracy, original.flops) == (copy.accuracy, copy.flops)


def test_an_untrained_pretrained_network_of_the_ancestors_size_is_the_ancestor(curves, measured):
    folder, _ = measured
    rows = read_rows(folder / "runs/tiny/ancestor/seed0/results.csv")
    (of_ancestor,) = [row.value for row in rows if (row.split, row.metric) == ("test", "acc")]
    (point,) = curves["pretrained"]["shapes", "whole"]
    assert (point.epochs, point.accuracy) == (0, {0: pytest.approx(100 * of_ancestor)})


def test_sources_are_shared_among_the_sizes(curves, measured):
    folder, _ = measured
    learned = RunRecord.at(folder / "runs/tiny/sws/seed0").flops
    for size in ("full", "half"):
        of_sws, random = (curves[start]["shapes", size][0] for start in ("sws", "random"))
        assert (of_sws.shared, random.shared) == (learned / 2, 0)
        assert of_sws.flops - of_sws.shared == random.flops


def test_scratch_gets_as_much_compute_as_the_costliest_start(curves, measured):
    for size in ("full", "half"):
        scratch = curves["random"]["shapes", size]
        costliest = max(found["shapes", size][-1].flops for found in curves.values() if ("shapes", size) in found)
        assert scratch[-1].flops >= costliest / 1.02
        assert [point.epochs for point in scratch[:2]] == [1, 2]
    assert curves["random"]["shapes", "half"][-1].epochs > 2
    folder, _ = measured
    again = ok(lgx("sweep", folder / "starts.yaml", "--runs_dir", folder / "runs"))
    assert "started" not in again.out
    starts = load_sweep(folder / "starts.yaml").starts
    rows = read_rows(folder / "runs/tiny/measured.csv")
    assert longer_scratch(starts, [row for row in rows if row.epochs == 0]) == {}


def test_the_rows_alone_are_compared_at_equal_compute(measured, tmp_path):
    folder, _ = measured
    rows = (folder / "runs/tiny/measured.csv").rename(tmp_path / "measured.csv")
    try:
        shown = ok(lgx("compare", rows, "--out", tmp_path / "out")).out
    finally:
        rows.rename(folder / "runs/tiny/measured.csv")
    assert "All methods against random with the same compute" in shown
    assert "<svg" in (tmp_path / "out/report.html").read_text()


def test_rows_without_a_cost_are_left_out(measured):
    folder, _ = measured
    rows = read_rows(folder / "runs/tiny/measured.csv")
    for unknown in (FLOPS, FLOPS + SHARED):
        assert read_curves([row for row in rows if row.metric != unknown], "acc") == {}


def test_runs_say_what_their_start_cost(fit, ancestor, images, tmp_path):
    source = f"--model.initializer.source={ancestor}/final.learngene.safetensors"
    cloned = ["--model.initializer=WeightSubcloning", f"--model.initializer.data={images}/train", source]
    narrow = "--model.arch=depth=2,embed_dim=8,num_heads=1,patch_size=4,img_size=16"
    ok(fit("Finetune", *cloned, narrow, "--name=cloned"))
    assert fit("Finetune", narrow, "--name=drawn").code == 0
    ended, drawn = (read_summary(tmp_path / f"runs/test/{name}/seed0") for name in ("cloned", "drawn"))
    assert drawn["start_flops"] == 0 < ended["start_flops"]
    last = load_checkpoint(tmp_path / "runs/test/cloned/seed0/checkpoints/last.ckpt")
    last["callbacks"]["TrainingHealth"]["seconds"] += 1000
    torch.save(last, tmp_path / "runs/test/cloned/seed0/checkpoints/last.ckpt")
    ok(fit("Finetune", *cloned, narrow, "--name=cloned", "--ckpt_path=last", "--trainer.max_epochs=2"))
    resumed = read_summary(tmp_path / "runs/test/cloned/seed0")
    assert resumed["start_flops"] == ended["start_flops"]
    assert resumed["batches"] == 2 * ended["batches"]
    assert resumed["seconds"] > 1000 > ended["seconds"]
    assert (resumed["flops"], resumed["examples"]) == (pytest.approx(2 * ended["flops"]), 2 * ended["examples"])


PLACE = ("task", "size")
positive = st.floats(1e6, 1e15)


def point(flops: float, *accuracies: float, epochs: int = 1, shared: float = 0.0) -> Point:
    return Point(epochs, dict(enumerate(accuracies)), flops + shared, shared)


@given(positive, st.floats(1.1, 100), st.floats(0, 100), st.floats(0, 100), st.floats(0, 1))
def test_interpolated_accuracy_lies_between_its_neighbors(flops, ratio, low, high, share):
    curve = [point(flops, low), point(flops * ratio, high, epochs=2)]
    between = at_compute(curve, flops * ratio**share, 0)
    assert between is not None
    assert min(low, high) - 1e-6 <= between <= max(low, high) + 1e-6


def test_accuracy_is_known_within_the_measured_compute_alone():
    curve = [point(1e9, 10), point(4e9, 30, epochs=4)]
    assert [at_compute(curve, flops, 0) for flops in (0.5e9, 0.99e9, 2e9, 4.05e9, 5e9)] == [None, 10, 20, 30, None]
    assert at_compute(curve, 2e9, 1) is None


def test_a_method_is_compared_with_another_at_its_own_compute():
    curves = {
        "scratch": {PLACE: [point(1e9, 10, 12), point(4e9, 30, 32, epochs=4)]},
        "start": {PLACE: [point(1e9, 25, 27, shared=1e9)]},
        "costly": {PLACE: [point(9e9, 99, 99)]},
    }
    difference, places = lead_at_equal_compute(curves, "start", "scratch", 1)
    assert (difference.summary.mean, places) == (pytest.approx(5), {PLACE})
    assert lead_at_equal_compute(curves, "costly", "scratch", 1) is None
    _, section = compute_sections(curves, "scratch")
    assert [cells[2].text for _, cells in section.tables[0].rows] == ["–", "+5.0 ± 0.0", "–"]


def test_the_best_method_within_a_bound_names_its_equals():
    curves = {
        "cheap": {PLACE: [point(1e9, 40, 41, 42)]},
        "equal": {PLACE: [point(1e9, 42, 40, 40)]},
        "worse": {PLACE: [point(1e9, 20, 21, 22.5)]},
        "costly": {PLACE: [point(1e9, 90, 91, 92, shared=9e9)]},
    }
    choice = best_within(curves, PLACE, 2e9)
    assert (choice.method, choice.equals) == ("cheap", ("equal",))
    assert best_within(curves, PLACE, inf).method == "costly"
    assert best_within(curves, PLACE, 1e8) is None
