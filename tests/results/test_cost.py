"""Compute of architectures and runs, compared with the papers' numbers; runs that are followed back to sources."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from experiments.analyze.module_costs import cost_in_modules
from lgx.architectures import NAMES
from lgx.architectures.cost import cost_of
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.core.rows import Row, write_rows
from lgx.host.files import digest_of
from lgx.methods import registry
from lgx.results.cost import (
    Descendant,
    MethodCost,
    epochs_table,
    flops_table,
    method_cost,
    method_costs,
    storage_table,
)
from lgx.results.merging import find_results, merge
from lgx.results.run_records import Work
from lgx.training.same_run import flat_options
from tests.support.command_line import ARCH
from tests.support.learngenes import initializers_with_source, save_source

DES_B = [f"Des-B-{depth}" for depth in range(6, 16)]


def sws_b(tuning: float) -> MethodCost:
    """SWS's Des-B-6 to -15: a learngene of 100 epochs, and the given epochs of tuning for each."""
    descendants = [Descendant(name, "imagenet", cost_of(NAMES[name]).parameters, Work(tuning)) for name in DES_B]
    scratch = {("imagenet", name): Work(100) for name in DES_B}
    return method_cost("sws", descendants, [Work(100)], stored=cost_of(NAMES["Aux-B"]).parameters, scratch=scratch)


def test_sws_pretrains_10_times_less():
    assert sws_b(10).pretraining / sws_b(10).learning.epochs == 10


def test_sws_trains_less_than_scratch_and_tleg_by_what_the_paper_says():
    assert sws_b(5).scratch.epochs / sws_b(5).total.epochs == pytest.approx(6.6, abs=0.07)  # 1000 / 150
    assert sws_b(40).total.epochs / sws_b(10).total.epochs == 2.5  # TLEG: 100 + 10 x 40 against 100 + 10 x 10


def test_lsamd_saves_95_percent_of_the_storage():
    counted = {f"Des-B-{d}": cost_in_modules(NAMES[f"Des-B-{d}"].replace(num_classes=100)) for d in range(5, 16)}
    descendants = [Descendant(name, "cifar100", cost.parameters, Work(50)) for name, cost in counted.items()]
    cost = method_cost("lsamd", descendants, stored=counted["Des-B-5"].parameters)
    assert round(cost.each / 1e6, 2) == 787.03
    ((_, cells),) = storage_table([cost]).rows
    assert [cell.text for cell in cells] == ["11", "36.11", "787.03", "21.80x", "95.41 %"]


def test_unknown_costs_are_dashes_and_other_numbers_stay():
    descendants = [Descendant("6-Small", "pocket", 22_000_000, Work(3, 6e12, 60))]
    tal = method_cost("tal", descendants, [Work(75, None, 7200)], stored=None)
    sws = method_cost("sws", descendants, [Work(6, 12e12, 60)], stored=2_000_000)
    (one, first), (other, second) = storage_table([tal, sws]).rows
    assert (one, other) == ("sws", "tal")
    assert [cell.text for cell in second] == ["1", "–", "22.00", "–", "–"]
    assert [cell.text for cell in first] == ["1", "2.00", "22.00", "11.00x", "90.91 %"]
    rows = dict(flops_table([tal, sws]).rows)
    assert [cell.text for cell in rows["tal"]] == ["0", "–", "6", "–", "2.02"]
    assert [cell.text for cell in rows["sws"]] == ["0", "12", "6", "–", "0.0333"]
    assert [cell.text for cell in dict(epochs_table([tal, sws]).rows)["tal"]] == ["1", "0", "75", "3", "–", "1.00x"]


def test_small_networks_are_counted_in_thousands():
    small = Descendant("3-Tiny", "pocket", 25_000, Work(3))
    table = storage_table([method_cost("sws", [small], stored=5_000)])
    assert table.columns[1:3] == ("stored (k)", "a network each (k)")
    assert [cell.text for cell in table.rows[0][1]] == ["1", "5.00", "25.00", "5.00x", "80.00 %"]


def test_descendants_on_several_tasks_need_one_pretraining_per_architecture():
    descendants = [Descendant("6-Small", task, 10, Work(5)) for task in ("a", "b")]
    cost = method_cost("sws", descendants, [Work(20)], scratch={("a", "6-Small"): Work(30)})
    assert (cost.architectures, cost.descendants, cost.each) == (1, 2, 10)
    assert (cost.pretraining, cost.tuning.epochs) == (20, 10)
    assert cost.scratch is None  # task b was not trained from scratch


DESCENDANT = ARCH.replace("depth=4", "depth=3")


def write_run(
    folder: Path, model: str, method: str, arch: str = DESCENDANT, epochs: int = 1, **arguments: object
) -> Path:
    """A finished run that took 100 FLOPs."""
    config = {
        "model": {"class_path": f"lgx.methods.{model}", "init_args": {"arch": arch, **arguments}},
        "data": {"class_path": "data_modules.ImageFolderData", "init_args": {"batch_size": 16}},
    }
    row = Row(method, arch, "shapes", "test", epochs, "acc", 0.5, 0, 12, str(folder))
    write_rows(folder / "results.csv", [row])
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    named = {f"model.{key}": Path(str(value)) for key, value in flat_options(arguments).items() if "/" in str(value)}
    sources = {key: digest_of(file) if file.is_file() else "gone" for key, file in named.items()}
    counted = {"epochs": epochs, "seconds": 1.0, "flops": 90.0, "start_flops": 10.0, "sources": sources}
    (folder / "summary.json").write_text(json.dumps(counted))
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
    assert (moved.stored, moved.ancestor + moved.learning) == (stored, Work(1, 100, 1))


def test_a_source_that_nobody_has_any_more_is_unknown(tmp_path):
    gone = tmp_path / f"gone/final{SUFFIX}"
    write_run(tmp_path / "runs/test/d/seed0", "Finetune", "mine", initializer=start("Pretrained", gone))
    write_run(tmp_path / "runs/test/o/seed0", "Finetune", "other", initializer=start("OfAnotherPackage", gone))
    for cost in costs_of(tmp_path / "runs").values():
        assert (cost.stored, cost.learning.flops, cost.total.seconds) == (None, None, None)


def test_a_source_that_was_replaced_after_it_was_read_is_unknown(tmp_path):
    learned = write_run(tmp_path / "runs/test/s/seed0", "Ancestor", "ancestor", ARCH)
    kind = registry.initializer_classes()["Pretrained"]
    source = save_source(kind, learned / f"final{SUFFIX}")
    write_run(tmp_path / "runs/test/d/seed0", "Finetune", "mine", initializer=start("Pretrained", source))
    assert costs_of(tmp_path / "runs")["mine"].learning.flops == 100
    other = Learngene.load(source)
    replace(other, metrics={"acc": 0.5}).save(source)
    assert costs_of(tmp_path / "runs")["mine"].learning.flops is None


def test_a_hypernetwork_is_stored_once_for_starts_and_for_tuned_descendants(tmp_path):
    runs = tmp_path / "runs"
    learned = write_run(runs / "test/h/seed0", "TAL", "mine", epochs=0)
    kind = registry.initializer_classes()["HypernetPrediction"]
    source = save_source(kind, learned / f"final{SUFFIX}")
    write_run(runs / "test/d/seed0", "Finetune", "mine", ARCH, initializer=start("HypernetPrediction", source))
    cost = costs_of(runs)["mine"]
    assert (cost.descendants, cost.stored) == (2, kind(str(source)).stored_parameters)
