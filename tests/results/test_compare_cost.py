"""``lgx compare --cost``: computed from the files of real runs, back to their ancestor."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from experiments.reproduce.claims import Claim
from experiments.reproduce.storage import judge_storage
from lgx.architectures import parse_architecture
from lgx.architectures.cost import cost_of
from lgx.artifacts.learngene import Learngene
from lgx.errors import UserError
from lgx.results.cost import MethodCost, method_costs
from lgx.results.merging import find_results, merge
from lgx.results.run_records import RunRecord
from tests.support.command_line import ARCH, arguments, lgx, ok, refusal

DEPTHS = (3, 5)


def arch(depth: int) -> str:
    return ARCH.replace("depth=4", f"depth={depth}")


@pytest.fixture(scope="module")
def runs(images, ancestor, sws, tmp_path_factory):
    """Runs from SWS, the ancestor's weights and scratch at two depths: two epochs of three steps of 16 images."""
    folder = tmp_path_factory.mktemp("cost")
    starts = {
        "sws": ["--model.initializer=StagewiseExpansion",
                f"--model.initializer.source={sws}"],
        "weight_selection": ["--model.initializer=WeightSelection",
                             f"--model.initializer.source={ancestor}/final.learngene.safetensors"],
        "random": [],
    }  # fmt: skip
    for name, options in starts.items():
        for depth in DEPTHS if name != "weight_selection" else DEPTHS[:1]:
            more = [f"--model.arch={arch(depth)}", f"--name={name}-{depth}", "--test_end=true", *options]
            ok(lgx(*arguments("fit", "Finetune", images, folder, "--trainer.max_epochs=2", *more)))
    return folder


def costs_of(*folders: Path) -> dict[str, MethodCost]:
    merged = merge(find_results([str(folder) for folder in folders]))
    rows = [row for row in merged.rows if row.split == "test"]
    return {cost.method: cost for cost in method_costs(rows, merged.rows, merged.folders)[0]}


def summary_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "summary.json").read_text()))


def test_what_a_learngene_costs_is_followed_back_to_the_ancestor(runs, sws, ancestor):
    cost = costs_of(runs)["sws"]
    assert (cost.architectures, cost.descendants) == (2, 2)
    assert cost.stored == Learngene.load(sws / "final.learngene.safetensors").num_parameters
    assert cost.each == sum(parse_architecture(arch(d), num_classes=3).count_parameters() for d in DEPTHS)
    assert (cost.ancestor.epochs, cost.learning.epochs, cost.tuning.epochs) == (8, 8, 4)
    assert cost.learning == RunRecord.at(sws).work
    taught = summary_of(sws)["flops"] - summary_of(ancestor)["flops"]  # the ancestor teaches: one forward pass in 3
    assert taught > summary_of(ancestor)["flops"] / 4
    assert cost.ancestor.flops == summary_of(ancestor)["flops"]
    assert cost.tuning.flops == sum(summary_of(runs / f"test/sws-{d}/seed0")["flops"] for d in DEPTHS)
    assert cost.scratch == costs_of(runs)["random"].tuning
    assert cost.pretraining == 8 * 2
    assert cost.total.seconds > 0


def test_a_start_through_a_folder_of_init_costs_and_is_called_what_a_direct_one_is(runs, images, sws, tmp_path):
    source, folder = sws / "final.learngene.safetensors", tmp_path / "start"
    ok(lgx("init", "--source", source, "--arch", arch(3), "--out", folder))
    again = tmp_path / "again"  # a copy of the start is still the start
    assert lgx("init", "--source", folder, "--arch", arch(3), "--out", again).code == 0
    direct = costs_of(runs)["sws"]
    for place in (folder, again):
        options = ["--model.initializer=Pretrained", f"--model.initializer.source={place}", f"--model.arch={arch(3)}"]
        more = ["--trainer.max_epochs=2", f"--name=by-{place.name}", "--test_end=true", *options]
        ok(lgx(*arguments("fit", "Finetune", images, tmp_path / "runs", *more)))
    found = costs_of(tmp_path / "runs")
    assert list(found) == ["sws"]
    assert (found["sws"].stored, found["sws"].learning, found["sws"].ancestor) == (
        direct.stored, direct.learning, direct.ancestor,
    )  # fmt: skip


def test_scratch_stores_nothing_and_an_ancestor_is_taken_as_given(runs, ancestor):
    found = costs_of(runs)
    assert (found["random"].stored, found["random"].learning.epochs, found["random"].ancestor.epochs) == (0, 0, 0)
    selected = found["weight_selection"]
    assert selected.stored == Learngene.load(ancestor / "final.learngene.safetensors").num_parameters
    assert (selected.ancestor.epochs, selected.learning.epochs, selected.pretraining) == (8, 0, None)


def test_every_pretrained_network_counts_as_stored(runs, images, tmp_path):
    folder = tmp_path / "runs"
    for depth in DEPTHS:
        one = arguments("fit", "Ancestor", images, folder, f"--model.arch={arch(depth)}", f"--name=big-{depth}")
        assert lgx(*one).code == 0
        source = f"--model.initializer.source={folder}/test/big-{depth}/seed0/final.learngene.safetensors"
        more = [f"--model.arch={arch(depth)}", "--model.initializer=Pretrained", source, f"--name=pf-{depth}"]
        assert lgx(*arguments("fit", "Finetune", images, folder, "--test_end=true", *more)).code == 0
    cost = costs_of(folder)["pretrained"]
    assert cost.stored == cost.each
    assert (cost.ancestor.epochs, cost.learning.epochs, cost.tuning.epochs, cost.pretraining) == (0, 2, 2, None)


def test_a_claim_about_storage_is_judged_by_the_folders_of_runs(runs):
    claim = Claim.parse("sws > pretrained, stored")
    merged = merge(find_results([str(runs)]))
    verdict = judge_storage(claim, merged.rows, {"pretrained": "each"}, merged=merged)
    cost = costs_of(runs)["sws"]
    assert (verdict.answer, verdict.factor) == ("computed", pytest.approx(cost.each / cost.stored))
    assert judge_storage(claim, merged.rows, {"pretrained": "each"}).answer == "not measured"


def test_moved_runs_are_found(runs, sws, ancestor, tmp_path):
    place = tmp_path / "elsewhere" / "test"
    for run in (sws, ancestor, *(runs / "test").glob("sws-*/seed0")):
        shutil.copytree(run, place / run.parent.name / "seed0")
    for path in place.rglob("config.yaml"):
        text = path.read_text().replace(str(sws.parents[2]), "gone").replace(str(ancestor.parents[2]), "gone")
        path.write_text(text)
    before, after = costs_of(runs)["sws"], costs_of(place.parent)["sws"]
    assert (after.stored, after.learning, after.ancestor) == (before.stored, before.learning, before.ancestor)


def test_the_command_prints_and_writes_the_cost(runs, tmp_path):
    result = ok(lgx("compare", runs, "--cost", "--out", tmp_path / "report"))
    for words in ("Parameters stored to start all descendants", "Training in epochs", "Training in FLOPs"):
        assert words in result.out.replace("\n", " ")
        assert words in (tmp_path / "report/report.html").read_text()


def test_an_unfinished_run_costs_epochs_but_no_known_flops(runs, tmp_path):
    folder = tmp_path / "runs"
    shutil.copytree(runs / "test/random-3", folder / "test/random-3")
    (folder / "test/random-3/seed0/summary.json").write_text(json.dumps({})[:1])
    cost = costs_of(folder)["random"]
    assert (cost.tuning.epochs, cost.tuning.flops) == (2, None)


def test_results_without_their_runs_are_refused_in_one_sentence(runs, tmp_path):
    table = tmp_path / "results.csv"
    shutil.copy(runs / "test/random-3/seed0/results.csv", table)
    text = table.read_text().replace(str(runs), "gone")
    table.write_text(text)
    assert "needs folders of descendants' runs" in refusal(lgx("compare", table, "--cost"))
    (tmp_path / "config.yaml").write_text("model: 3")
    with pytest.raises(UserError, match=r"config\.yaml: not the configuration of a run"):
        costs_of(tmp_path)


def test_networks_without_a_learngene_are_counted_with_their_own_head(images, tmp_path):
    ok(lgx(*arguments("fit", "Finetune", images, tmp_path / "runs", "--name=r", "--test_end")))
    record = RunRecord.at(tmp_path / "runs/test/r/seed0")
    own = cost_of(parse_architecture(ARCH, num_classes=3))
    (cost,), _ = method_costs(record.rows, record.rows, {record.rows[0].run: record.folder})
    assert cost.each == own.parameters
