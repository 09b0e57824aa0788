"""``lgx compare --cost``: from the files of runs back to their sources, and as LSAMD's Table 2 counts."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from experiments.analyze.module_costs import cost_in_modules
from experiments.reproduce.claims import Claim
from experiments.reproduce.storage import judge_storage
from lgx.architectures import NAMES, parse_architecture
from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.core.rows import Row, write_rows
from lgx.errors import UserError
from lgx.host.files import digest_of
from lgx.methods import registry
from lgx.results.cost import MethodCost, cost_section, method_costs
from lgx.results.merging import find_results, merge
from lgx.results.run_records import RunRecord, Work
from lgx.training.same_run import flat_options
from tests.support.command_line import ARCH, arguments, lgx, ok, refusal
from tests.support.learngenes import initializers_with_source, save_source

DEPTHS = (3, 5)


def arch(depth: int) -> str:
    return ARCH.replace("depth=4", f"depth={depth}")


def costs_of(*folders: Path) -> dict[str, MethodCost]:
    merged = merge(find_results([str(folder) for folder in folders]))
    rows = [row for row in merged.rows if row.split == "test"]
    return {cost.method: cost for cost in method_costs(rows, merged.rows, merged.folders)[0]}


def cells_of(*costs: MethodCost) -> dict[str, list[str]]:
    (table,) = cost_section(costs).tables
    return {method: [cell.text for cell in cells] for method, cells in table.rows}


def test_lsamd_saves_95_percent_of_the_storage():
    counted = [cost_in_modules(NAMES[f"Des-B-{d}"].replace(num_classes=100)).parameters for d in range(5, 16)]
    cost = MethodCost("lsamd", 11, 11, counted[0], sum(counted), Work(), Work())
    assert cells_of(cost)["lsamd"][:5] == ["11", "11", "36.11M", "787M", "21.80x"]  # 95.41 % saved


def test_unknown_costs_are_dashes_and_other_numbers_stay():
    tal = MethodCost("tal", 1, 1, None, 22_000_000, Work(None, 7200), Work(6e12, 60))
    sws = MethodCost("sws", 1, 2, 2_000_000, 22_000_000, Work(12e12, None), Work(6e12, 60))
    assert cells_of(tal, sws) == {
        "sws": ["1", "2", "2M", "22M", "11.00x", "12T", "6T", "–"],
        "tal": ["1", "1", "–", "22M", "–", "–", "6T", "2.02"],
    }


def write_run(folder: Path, model: str, method: str, depth: int = 3, epochs: int = 1, **arguments: object) -> Path:
    """A finished run that took 100 FLOPs."""
    config = {
        "model": {"class_path": f"lgx.methods.{model}", "init_args": {"arch": arch(depth), **arguments}},
        "data": {"class_path": "data_modules.ImageFolderData", "init_args": {"batch_size": 16}},
    }
    row = Row(method, arch(depth), "shapes", "test", epochs, "acc", 0.5, 0, 12, str(folder))
    write_rows(folder / "results.csv", [row])
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    named = {f"model.{key}": Path(str(value)) for key, value in flat_options(arguments).items() if "/" in str(value)}
    sources = {key: digest_of(file) if file.is_file() else "gone" for key, file in named.items()}
    counted = {"epochs": epochs, "seconds": 1.0, "flops": 90.0, "start_flops": 10.0, "sources": sources}
    counted |= {"outputs": {"shapes": 3}}
    (folder / "summary.json").write_text(json.dumps(counted))
    return folder


def start(kind: str, source: Path | str) -> dict[str, object]:
    return {"class_path": f"lgx.methods.{kind}", "init_args": {"source": str(source)}}


@pytest.mark.parametrize("name", initializers_with_source())
def test_the_stored_parameters_of_every_initializer_are_found_where_its_runs_were_moved(name, tmp_path):
    learned = write_run(tmp_path / "runs/test/source/seed0", "SWS", "aux")
    kind = registry.initializer_classes()[name]
    source = save_source(kind, learned / f"checkpoints/of_epoch_3{SUFFIX}")
    write_run(tmp_path / "runs/test/descendant/seed0", "Finetune", "mine", initializer=start(name, source))
    stored = kind(str(source)).stored_parameters
    mine = costs_of(tmp_path / "runs")["mine"]
    (tmp_path / "runs").rename(tmp_path / "moved")
    for each in (mine, costs_of(tmp_path / "moved")["mine"]):
        assert each.stored == stored > 0
        assert (each.learning, each.tuning) == (Work(100, 1), Work(100, 1))


def test_pretrained_networks_of_every_size_count_and_are_stored(tmp_path):
    kind = registry.initializer_classes()["Pretrained"]
    for depth in DEPTHS:
        learned = write_run(tmp_path / f"runs/test/s{depth}/seed0", "Ancestor", "ancestor", depth)
        source = save_source(kind, learned / f"final{SUFFIX}", network=parse_architecture(arch(depth), num_classes=3))
        options = {"initializer": start("Pretrained", source)}
        write_run(tmp_path / f"runs/test/d{depth}/seed0", "Finetune", "mine", depth, **options)
    cost = costs_of(tmp_path / "runs")["mine"]
    assert (cost.stored, cost.learning) == (cost.each, Work(200, 2))


def test_a_source_that_is_gone_or_was_replaced_is_unknown(tmp_path):
    gone = tmp_path / f"gone/final{SUFFIX}"
    write_run(tmp_path / "runs/test/d/seed0", "Finetune", "mine", initializer=start("Pretrained", gone))
    write_run(tmp_path / "runs/test/o/seed0", "Finetune", "other", initializer=start("OfAnotherPackage", gone))
    learned = write_run(tmp_path / "runs/test/s/seed0", "Ancestor", "ancestor", 4)
    source = save_source(registry.initializer_classes()["Pretrained"], learned / f"final{SUFFIX}")
    write_run(tmp_path / "runs/test/r/seed0", "Finetune", "replaced", initializer=start("Pretrained", source))
    assert costs_of(tmp_path / "runs")["replaced"].learning.flops == 100
    replace(Learngene.load(source), metrics={"acc": 0.5}).save(source)
    found = costs_of(tmp_path / "runs")
    assert [found[name].learning for name in ("mine", "other", "replaced")] == [Work(None, None)] * 3
    assert [found[name].stored for name in ("mine", "other")] == [None, None]


def test_an_extracted_learngene_costs_the_run_that_it_was_extracted_from(tmp_path):
    kind = registry.initializer_classes()["SelectedExpansion"]
    selected = save_source(kind, write_run(tmp_path / "runs/test/s/seed0", "LSAMD", "aux") / f"of_its_run{SUFFIX}")
    extracted = tmp_path / f"files/final{SUFFIX}"
    extracted.parent.mkdir()
    replace(Learngene.load(selected), sources=(digest_of(selected),)).save(extracted)
    write_run(tmp_path / "runs/test/d/seed0", "Finetune", "mine", initializer=start("SelectedExpansion", extracted))
    assert costs_of(tmp_path / "runs")["mine"].learning == Work(100, 1)
    selected.unlink()
    assert costs_of(tmp_path / "runs")["mine"].learning == Work(None, None)


def test_a_hypernetwork_is_stored_once_for_starts_and_for_tuned_descendants(tmp_path):
    runs = tmp_path / "runs"
    learned = write_run(runs / "test/h/seed0", "TAL", "mine", epochs=0)
    kind = registry.initializer_classes()["HypernetPrediction"]
    source = save_source(kind, learned / f"final{SUFFIX}")
    write_run(runs / "test/d/seed0", "Finetune", "mine", 4, initializer=start("HypernetPrediction", source))
    cost = costs_of(runs)["mine"]
    assert (cost.descendants, cost.stored) == (2, kind(str(source)).stored_parameters)
    assert (cost.learning, cost.tuning) == (Work(100, 1), Work(100, 1))


@pytest.fixture(scope="module")
def runs(images, ancestor, sws, tmp_path_factory):
    """Runs from SWS, the ancestor's weights and scratch."""
    folder = tmp_path_factory.mktemp("cost")
    starts = {
        "sws": ["--model.initializer=StagewiseExpansion",
                f"--model.initializer.source={sws}"],
        "weight_selection": ["--model.initializer=WeightSelection",
                             f"--model.initializer.source={ancestor}/final.learngene.safetensors"],
        "random": [],
    }  # fmt: skip
    for name, options in starts.items():
        for depth in DEPTHS if name == "sws" else DEPTHS[:1]:
            more = [f"--model.arch={arch(depth)}", f"--name={name}-{depth}", "--test_end=true", *options]
            ok(lgx(*arguments("fit", "Finetune", images, folder, *more)))
    return folder


def summary_of(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "summary.json").read_text()))


def test_what_a_learngene_costs_is_followed_back_without_the_ancestor(runs, sws, ancestor):
    found = costs_of(runs)
    cost = found["sws"]
    assert (cost.architectures, cost.descendants) == (2, 2)
    assert cost.stored == Learngene.load(sws / "final.learngene.safetensors").num_parameters
    assert cost.each == sum(parse_architecture(arch(d), num_classes=3).count_parameters() for d in DEPTHS)
    assert cost.learning == RunRecord.at(sws).work
    taught = summary_of(sws)["flops"] - summary_of(ancestor)["flops"]  # the ancestor teaches: one forward pass in 3
    assert taught > summary_of(ancestor)["flops"] / 4
    assert cost.tuning.flops == sum(summary_of(runs / f"test/sws-{d}/seed0")["flops"] for d in DEPTHS)
    assert (found["random"].stored, found["random"].learning) == (0, Work())
    selected = found["weight_selection"]
    assert selected.stored == Learngene.load(ancestor / "final.learngene.safetensors").num_parameters
    assert selected.learning == Work()
    claim = Claim.parse("sws > pretrained, stored")
    merged = merge(find_results([str(runs)]))
    verdict = judge_storage(claim, merged.rows, {"pretrained": "each"}, merged=merged)
    assert (verdict.answer, verdict.factor) == ("computed", pytest.approx(cost.each / cost.stored))
    assert judge_storage(claim, merged.rows, {"pretrained": "each"}).answer == "not measured"


def test_a_start_through_a_folder_of_init_costs_and_is_called_what_a_direct_one_is(runs, images, sws, tmp_path):
    source, folder = sws / "final.learngene.safetensors", tmp_path / "start"
    ok(lgx("init", "--source", source, "--arch", arch(3), "--out", folder))
    options = ["--model.initializer=Pretrained", f"--model.initializer.source={folder}", f"--model.arch={arch(3)}"]
    ok(lgx(*arguments("fit", "Finetune", images, tmp_path / "runs", "--name=by", "--test_end=true", *options)))
    found, direct = costs_of(tmp_path / "runs"), costs_of(runs)["sws"]
    assert list(found) == ["sws"]
    assert (found["sws"].stored, found["sws"].learning) == (direct.stored, direct.learning)


def test_the_command_shows_the_cost_and_names_missing_runs(runs, tmp_path):
    shown = ok(lgx("compare", runs, "--cost", "--out", tmp_path / "report")).out
    assert "Cost of all descendants" in shown
    assert "Cost of all descendants" in (tmp_path / "report/report.html").read_text()
    shutil.copytree(runs / "test/random-3", tmp_path / "runs/test/random-3")
    (tmp_path / "runs/test/random-3/seed0/summary.json").unlink()
    assert costs_of(tmp_path / "runs")["random"].tuning.flops is None
    table = tmp_path / "results.csv"
    table.write_text((runs / "test/random-3/seed0/results.csv").read_text().replace(str(runs), "gone"))
    assert "needs folders of descendants' runs" in refusal(lgx("compare", table, "--cost"))
    (tmp_path / "config.yaml").write_text("model: 3")
    with pytest.raises(UserError, match=r"config\.yaml: not the configuration of a run"):
        costs_of(table)
