"""``lgx arena`` on real runs: costs, the longer training from scratch, the report, and its sanity."""

from pathlib import Path

import pytest
import torch

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.core.rows import read_rows, write_rows
from lgx.results.arena.arena_file import load_arena
from lgx.results.arena.points import FLOPS, read_points
from lgx.results.arena.rounds import training_flops
from lgx.results.arena.sections import choice_section, crossover_section
from lgx.results.merging import read_summary
from lgx.results.run_records import RunRecord
from tests.support.command_line import Result, lgx, ok, refusal


@pytest.fixture(scope="session")
def curves(measured: tuple[Path, Result]):
    folder, _ = measured
    return read_points(load_arena(folder / "arena.yaml"), read_rows(folder / "runs/tiny/measured.csv"))


def test_a_copy_of_a_start_has_its_curve(curves):
    for size in ("full", "half"):
        original, copy = curves["random"]["shapes", size][0], curves["twin"]["shapes", size][0]
        assert (original.accuracy, original.flops) == (copy.accuracy, copy.flops)


def test_an_untrained_pretrained_network_of_the_ancestors_size_is_the_ancestor(curves, measured):
    folder, _ = measured
    rows = read_rows(folder / "runs/tiny/ancestor/seed0/results.csv")
    (of_ancestor,) = [row.value for row in rows if (row.split, row.metric) == ("test", "acc")]
    (point,) = curves["pretrained"]["shapes", "whole"]
    assert (point.budget, point.accuracy) == (0, {0: pytest.approx(100 * of_ancestor)})
    (choice,) = choice_section(load_arena(folder / "arena.yaml"), curves, [("shapes", "whole")]).tables
    ((label, cells),) = choice.rows
    assert label == "shapes, whole"
    assert cells[-1].text.startswith("pretrained ")
    (crossovers,) = crossover_section(load_arena(folder / "arena.yaml"), curves, "sws").tables
    assert {label for label, _ in crossovers.rows} == curves.keys() - {"pretrained"}


def test_sources_are_counted_whole_and_shared_among_the_sizes(curves, measured):
    folder, _ = measured
    learned = training_flops(RunRecord.at(folder / "runs/tiny/sws/seed0"))
    for size in ("full", "half"):
        amount = curves["sws"]["shapes", size][0].flops
        assert (amount.sources, amount.shared) == (learned, learned / 2)
        random = curves["random"]["shapes", size][0].flops
        assert (random.own, random.sources) == (amount.own, 0)


def test_scratch_gets_as_much_compute_as_the_costliest_start(curves):
    for size in ("full", "half"):
        scratch = curves["random"]["shapes", size]
        costliest = max(found["shapes", size][-1].flops.total for found in curves.values() if ("shapes", size) in found)
        assert scratch[-1].flops.total >= costliest / 1.02
        assert [point.budget for point in scratch[:2]] == [1, 2]
    assert curves["random"]["shapes", "half"][-1].budget > 2


def test_the_report_can_be_written_again_from_the_rows_alone(measured, tmp_path):
    folder, _ = measured
    page = (folder / "runs/tiny/report.html").read_text()
    (folder / "runs").rename(folder / "away")
    try:
        options = ["--results", folder / "away/tiny/measured.csv", "--out", tmp_path / "out"]
        again = lgx("arena", folder / "arena.yaml", "--runs_dir", folder / "runs", *options)
    finally:
        (folder / "away").rename(folder / "runs")
    assert again.code == 0, again.err
    assert "0 of" in again.out.splitlines()[0]
    assert (tmp_path / "out/report.html").read_text() == page
    assert "<svg" in page
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"report.html", "results.md", "curves-shapes.svg"}


def test_a_finished_arena_runs_nothing_again(measured):
    folder, first = measured
    again = ok(lgx("arena", folder / "arena.yaml", "--runs_dir", folder / "runs"))
    assert "started" not in again.out
    assert first.out[first.out.index("What to choose") :] == again.out[again.out.index("What to choose") :]


def test_rows_without_a_cost_are_left_out(measured):
    folder, _ = measured
    arena, rows = load_arena(folder / "arena.yaml"), read_rows(folder / "runs/tiny/measured.csv")
    assert read_points(arena, [row for row in rows if row.metric != FLOPS]) == {}


def test_another_programs_files_are_not_replaced(measured, tmp_path):
    folder, _ = measured
    (tmp_path / "results.md").write_text("mine")
    results = folder / "runs/tiny/measured.csv"
    result = lgx("arena", folder / "arena.yaml", "--results", results, "--out", tmp_path, "--runs_dir", folder / "runs")
    assert result.code != 0
    assert "results.md" in result.sentence
    assert (tmp_path / "results.md").read_text() == "mine"


@pytest.mark.parametrize(
    ("metric", "words"),
    [
        ("accuracy", "--metric accuracy: no run measured it; the runs measured acc"),
        ("loss", "smaller values are better"),
    ],
)
def test_a_metric_that_is_no_measured_accuracy_is_refused(measured, metric, words):
    folder, _ = measured
    assert words in refusal(lgx("arena", folder / "arena.yaml", "--runs_dir", folder / "runs", "--metric", metric))


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


def test_missing_rows_are_measured_again(measured, tmp_path):
    folder, _ = measured
    rows = read_rows(folder / "runs/tiny/measured.csv")
    kept = [row for row in rows if "twin" not in row.run]
    write_rows(tmp_path / "part.csv", kept)
    dry = lgx("arena", folder / "arena.yaml", "--runs_dir", folder / "runs", "--results", tmp_path / "part.csv",
              "--dry_run")  # fmt: skip
    assert dry.out.count("lgx fit") == 2
