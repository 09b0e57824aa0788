"""Runs that are followed back to their sources, written here as files: every initializer, moved folders, teachers."""

import json
from pathlib import Path

import pytest
import yaml

from lgx.artifacts.learngene import SUFFIX
from lgx.core.rows import Row, write_rows
from lgx.methods import registry
from lgx.results.cost import MethodCost
from lgx.results.lineage import Lineage
from lgx.results.merging import find_results, merge
from lgx.results.method_costs import method_costs
from lgx.results.run_records import RunRecord
from tests.support.command_line import ARCH
from tests.support.learngenes import initializers_with_source, save_source

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


@pytest.mark.parametrize("place", [f"best{SUFFIX}", f"checkpoints/of_epoch_3{SUFFIX}"])
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
    gone = tmp_path / f"gone/best{SUFFIX}"
    write_run(tmp_path / "runs/test/d/seed0", "Finetune", "mine", initializer=start("Pretrained", gone))
    write_run(tmp_path / "runs/test/o/seed0", "Finetune", "other", initializer=start("OfAnotherPackage", gone))
    assert {method: cost.stored for method, cost in costs_of(tmp_path / "runs").items()} == {
        "mine": None,
        "other": None,
    }


def test_a_hypernetwork_is_stored_once_for_starts_and_for_tuned_descendants(tmp_path):
    runs = tmp_path / "runs"
    learned = write_run(runs / "test/h/seed0", "TAL", "mine", epochs=0)
    kind = registry.initializer_classes()["HypernetPrediction"]
    source = save_source(kind, learned / f"best{SUFFIX}")
    write_run(runs / "test/d/seed0", "Finetune", "mine", ARCH, initializer=start("HypernetPrediction", source))
    cost = costs_of(runs)["mine"]
    assert (cost.descendants, cost.stored) == (2, kind(str(source)).stored_parameters)


@pytest.mark.parametrize("model", ["Distill", "SWS", "TLEG", "MiniDeiT", "TAL"])
def test_a_teacher_is_counted_for_every_method_that_names_one(model, tmp_path):
    taught = write_run(tmp_path / "a/b/taught", model, "taught", ancestor="deit_tiny_patch16_224")
    alone = write_run(tmp_path / "a/b/alone", model, "alone")
    lineage = Lineage([])
    assert lineage.training(RunRecord.at(taught)).teacher_macs == pytest.approx(1.25e9, rel=0.02)
    assert lineage.training(RunRecord.at(alone)).teacher_macs == 0


def test_what_selects_layers_has_an_ancestor_but_no_teacher(tmp_path):
    run = write_run(tmp_path / "a/b/c", "LSAMD", "lsamd", ancestor="deit_tiny_patch16_224")
    assert Lineage([]).training(RunRecord.at(run)).teacher_macs == 0
