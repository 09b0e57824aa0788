"""Compute of architectures and runs, compared with the papers' numbers; runs that are followed back to sources."""

import json
from pathlib import Path

import pytest
import yaml

from experiments.analyze.module_costs import cost_in_modules
from lgx.architectures import NAMES
from lgx.architectures.cost import cost_of
from lgx.artifacts.learngene import SUFFIX
from lgx.core.rows import Row, write_rows
from lgx.methods import registry
from lgx.results.cost import (
    Descendant,
    MethodCost,
    epochs_table,
    macs_table,
    method_cost,
    method_costs,
    storage_table,
)
from lgx.results.lineage import Lineage
from lgx.results.merging import find_results, merge
from lgx.results.run_records import RunRecord, Work
from tests.support.command_line import ARCH
from tests.support.learngenes import initializers_with_source, save_source

IMAGES = 1_281_167
DES_B = [f"Des-B-{depth}" for depth in range(6, 16)]


def trained(name: str, epochs: float, images: int = IMAGES) -> Work:
    return Work.of(cost_of(NAMES[name]).macs, epochs, epochs * images)


def sws_b(tuning: float) -> MethodCost:
    """SWS's Des-B-6 to -15: a learngene of 100 epochs, and the given epochs of tuning for each."""
    descendants = [
        Descendant(name, "imagenet", *cost_of(NAMES[name])[::-1], trained(name, tuning)) for name in DES_B
    ]  # fmt: skip
    levit = 2.35e9  # MACs of the paper's ancestor, LeViT-384
    aux = Work.of(cost_of(NAMES["Aux-B"]).macs, 100, 100 * IMAGES, teacher=levit)
    scratch = {("imagenet", name): trained(name, 100) for name in DES_B}
    return method_cost("sws", descendants, [aux], stored=cost_of(NAMES["Aux-B"]).parameters, scratch=scratch)


def test_sws_pretrains_10_times_less():
    cost = sws_b(10)
    assert cost.pretraining.epochs / cost.learning.epochs == 10
    # Less in MACs: the auxiliary net has 16 layers, the ten descendants 10.5 on average, and the teacher costs, too.
    assert cost.pretraining.macs / cost.learning.macs == pytest.approx(6.37, abs=0.01)


def test_sws_trains_less_than_scratch_and_tleg_by_what_the_paper_says():
    assert sws_b(5).scratch.epochs / sws_b(5).total.epochs == pytest.approx(6.6, abs=0.07)  # 1000 / 150
    assert sws_b(40).total.epochs / sws_b(10).total.epochs == 2.5  # TLEG: 100 + 10 x 40 against 100 + 10 x 10


def test_lsamd_saves_95_percent_of_the_storage():
    counted = {f"Des-B-{d}": cost_in_modules(NAMES[f"Des-B-{d}"].replace(num_classes=100)) for d in range(5, 16)}
    tuned = Work.of(None, 50, None)
    descendants = [Descendant(name, "cifar100", cost.macs, cost.parameters, tuned) for name, cost in counted.items()]
    cost = method_cost("lsamd", descendants, stored=counted["Des-B-5"].parameters)
    assert round(cost.each / 1e6, 2) == 787.03
    ((_, cells),) = storage_table([cost]).rows
    assert [cell.text for cell in cells] == ["11", "36.11", "787.03", "21.80x", "95.41 %"]


def test_a_step_costs_three_forward_passes_and_the_teachers():
    assert Work.of(10.0, 2, 7, teacher=4.0).macs == 7 * (30 + 4)
    assert Work.of(10.0, 2, 7, teacher=None).macs is None


def test_unknown_costs_are_dashes_and_other_numbers_stay():
    descendants = [Descendant("6-Small", "pocket", 2e9, 22_000_000, Work.of(2e9, 3, 1000))]
    tal = method_cost("tal", descendants, [Work.of(None, 75, None, seconds=7200)], stored=None)
    sws = method_cost("sws", descendants, [Work.of(2e9, 6, 1000, seconds=60)], stored=2_000_000)
    (one, first), (other, second) = storage_table([tal, sws]).rows
    assert (one, other) == ("sws", "tal")
    assert [cell.text for cell in second] == ["1", "–", "22.00", "–", "–"]
    assert [cell.text for cell in first] == ["1", "2.00", "22.00", "11.00x", "90.91 %"]
    rows = dict(macs_table([tal, sws]).rows)
    assert [cell.text for cell in rows["tal"]] == ["0", "–", "6", "–", "–", "–"]
    assert [cell.text for cell in rows["sws"]] == ["0", "6", "6", "–", "1.00x", "–"]
    assert [cell.text for cell in dict(epochs_table([tal, sws]).rows)["tal"]] == ["1", "0", "75", "3", "–", "1.00x"]


def test_small_networks_are_counted_in_thousands():
    small = Descendant("3-Tiny", "pocket", 1e6, 25_000, Work.of(1e6, 3, 1000))
    table = storage_table([method_cost("sws", [small], stored=5_000)])
    assert table.columns[1:3] == ("stored (k)", "a network each (k)")
    assert [cell.text for cell in table.rows[0][1]] == ["1", "5.00", "25.00", "5.00x", "80.00 %"]


def test_descendants_on_several_tasks_need_one_pretraining_per_architecture():
    descendants = [Descendant("6-Small", task, 1e9, 10, Work.of(1e9, 5, 50)) for task in ("a", "b")]
    scratch = {("a", "6-Small"): Work.of(1e9, 30, 300)}
    cost = method_cost("sws", descendants, [Work.of(1e9, 20, 200)], scratch=scratch)
    assert (cost.architectures, cost.descendants, cost.each) == (1, 2, 10)
    assert (cost.pretraining.epochs, cost.tuning.epochs) == (20, 10)
    assert cost.scratch is None  # task b was not trained from scratch


DESCENDANT = ARCH.replace("depth=4", "depth=3")


def write_run(
    folder: Path, model: str, method: str, arch: str = DESCENDANT, epochs: int = 1, **arguments: object
) -> Path:
    """A finished run of 3 steps of 16 images."""
    config = {
        "model": {"class_path": f"lgx.methods.{model}", "init_args": {"arch": arch, **arguments}},
        "data": {"class_path": "data_modules.ImageFolderData", "init_args": {"batch_size": 16}},
    }
    row = Row(method, arch, "shapes", "test", epochs, "acc", 0.5, 0, 12, str(folder))
    write_rows(folder / "results.csv", [row])
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    (folder / "summary.json").write_text(json.dumps({"steps": 3, "processes": 1, "epochs": epochs, "seconds": 1.0}))
    return folder


def start(kind: str, source: Path | str, option: str = "source") -> dict[str, object]:
    return {"class_path": f"lgx.methods.{kind}", "init_args": {option: str(source)}}


def costs_of(folder: Path) -> dict[str, MethodCost]:
    merged = merge(find_results([str(folder)]))
    return {cost.method: cost for cost in method_costs(merged.rows, merged.rows, merged.folders)[0]}


@pytest.mark.parametrize("place", [f"final{SUFFIX}", f"checkpoints/of_epoch_3{SUFFIX}"])
@pytest.mark.parametrize("name", initializers_with_source())
def test_the_stored_parameters_of_every_initializer_are_found_where_its_runs_were_moved(name, place, tmp_path):
    runs = tmp_path / "runs"
    learned = write_run(runs / "test/source/seed0", "Ancestor", "ancestor", ARCH)
    kind = registry.initializer_classes()[name]
    source = save_source(kind, learned / place)
    write_run(runs / "test/descendant/seed0", "Finetune", "mine", initializer=start(name, source))
    stored = kind(str(source)).stored_parameters
    assert costs_of(runs)["mine"].stored == stored > 0
    runs.rename(tmp_path / "moved")
    moved = costs_of(tmp_path / "moved")["mine"]
    assert (moved.stored, moved.ancestor.epochs + moved.learning.epochs) == (stored, 1)


def test_a_source_that_nobody_has_any_more_is_unknown(tmp_path):
    gone = tmp_path / f"gone/final{SUFFIX}"
    write_run(tmp_path / "runs/test/d/seed0", "Finetune", "mine", initializer=start("Pretrained", gone))
    write_run(tmp_path / "runs/test/o/seed0", "Finetune", "other", initializer=start("OfAnotherPackage", gone))
    found = {method: cost.stored for method, cost in costs_of(tmp_path / "runs").items()}
    assert found == {"mine": None, "other": None}


def test_a_hypernetwork_is_stored_once_for_starts_and_for_tuned_descendants(tmp_path):
    runs = tmp_path / "runs"
    learned = write_run(runs / "test/h/seed0", "TAL", "mine", epochs=0)
    kind = registry.initializer_classes()["HypernetPrediction"]
    source = save_source(kind, learned / f"final{SUFFIX}")
    write_run(runs / "test/d/seed0", "Finetune", "mine", ARCH, initializer=start("HypernetPrediction", source))
    cost = costs_of(runs)["mine"]
    assert (cost.descendants, cost.stored) == (2, kind(str(source)).stored_parameters)


@pytest.mark.parametrize("model", ["Distill", "SWS", "TLEG", "MiniDeiT", "TAL"])
def test_a_teacher_is_counted_for_every_method_that_names_one(model, tmp_path):
    taught = write_run(tmp_path / "a/b/taught", model, "taught", ancestor="deit_tiny_patch16_224")
    alone = write_run(tmp_path / "a/b/alone", model, "alone")
    lineage = Lineage([])
    assert lineage.teacher_macs(RunRecord.at(taught)) == pytest.approx(1.25e9, rel=0.02)
    assert lineage.teacher_macs(RunRecord.at(alone)) == 0


def test_what_selects_layers_has_an_ancestor_but_no_teacher(tmp_path):
    run = write_run(tmp_path / "a/b/c", "LSAMD", "lsamd", ancestor="deit_tiny_patch16_224")
    assert Lineage([]).teacher_macs(RunRecord.at(run)) == 0
