"""Files and command lines of lgx 0.1.0 still work; ``tests/data/released/README.md`` describes the files."""

import csv
import json
import shutil
from pathlib import Path

import pytest
import timm
import torch
import yaml
from safetensors.torch import load_file

from lgx.artifacts.learngene import SUFFIX, Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.errors import UserError
from lgx.results.merging import find_results, merge
from lgx.results.method_costs import method_costs
from lgx.results.run_records import RunRecord
from lgx.training import migrations
from tests.data.released import make
from tests.parity_data import write_images
from tests.support.command_line import lgx
from tests.support.extras import import_transformers

RUN = "trained/released/{}/seed0"
ORIGIN = {"run", "config", "commit", "hardware"}
"""Columns of results that say where a number is from."""
NETWORKS = ["ancestor", "simple_lg", "segmentation", "text"]
CONTENT = {name: "network" if name in NETWORKS else "layers" for name in make.FILES}
CONTENT |= dict.fromkeys(["ghn3", "logah", "tal"], "hypernetwork")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """The images that the runs read."""
    root = tmp_path_factory.mktemp("images")
    for seed, (name, sizes) in enumerate(make.DATA.items()):
        write_images(root / name, sizes, seed)
    return root


@pytest.fixture(autouse=True)
def released(images, tmp_path, monkeypatch):
    """A copy of the released files beside the images, as the current folder."""
    migrations._report.cache_clear()
    folder = shutil.copytree(make.HERE, tmp_path / "released")
    monkeypatch.chdir(folder)
    for name in make.DATA:
        Path(name).symlink_to(images / name)
    for mark in folder.rglob("finished.json"):  # a copy's times are in any order; a mark is newer than what it marks
        mark.touch()


def done(*words):
    result = lgx(*words)
    assert result.code == 0, result.err
    return result


def deprecations(result):
    return [line for line in result.err.splitlines() if line.startswith("deprecated: ")]


def numbers(path):
    """Rows of results without their origin; losses of another CPU differ in the last bits, of another torch in more."""
    with open(path, newline="") as file:
        rows = [{key: value for key, value in row.items() if key not in ORIGIN} for row in csv.DictReader(file)]
    summary = json.loads((make.HERE / RUN.format("sws") / "summary.json").read_text())
    is_same_torch = torch.__version__ == summary["torch_version"]
    kept = [row for row in rows if is_same_torch or row["metric"] == "loss"]
    tolerance = 1e-5 if is_same_torch else 1e-3
    return [{**row, "value": pytest.approx(float(row["value"]), rel=tolerance)} for row in kept]


# Learngenes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", make.FILES)
def test_a_learngene_has_its_content_and_gives_the_descendant_of_then(name):
    if name == "text":
        import_transformers()
    learngene = Learngene.load(make.FILES[name])
    method = {"tleg_two_layers": "tleg", "segmentation": "ancestor", "text": "ancestor"}.get(name, name)
    assert (learngene.method, learngene.content, learngene.lgx_version) == (method, CONTENT[name], "0.1.0")
    done("init", "--source", make.FILES[name], *make.DESCENDANTS[name], "--out=descendant.safetensors")
    expected = json.loads(Path("descendants.json").read_text())[name]
    assert make.fingerprint(Path("descendant.safetensors")) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_learngene_that_is_a_network_loads_as_one(name):
    if name == "text":
        import_transformers()
    learngene, network = Learngene.load(make.FILES[name]), load_pretrained(make.FILES[name])
    assert network.architecture == learngene.architecture
    state = network.model.state_dict()
    assert all(torch.equal(state[key], tensor) for key, tensor in learngene.tensors.items())


@pytest.mark.parametrize("name", [name for name, content in CONTENT.items() if content != "network"])
def test_other_learngenes_are_refused_as_teachers(name):
    file = make.FILES[name]
    options = [*make.FIT, *make.SHAPES, f"--model.arch={make.SMALL}", f"--model.ancestor={file}"]
    result = lgx("fit", "--model=Distill", *options)
    assert result.code == 2
    what = "a hypernetwork" if CONTENT[name] == "hypernetwork" else "2 layers of"
    assert f"{file}: holds {what}" in result.sentence
    assert f"`lgx init --source {file} --arch …`" in result.sentence
    with pytest.raises(UserError, match="holds"):
        load_pretrained(file)


def test_two_layers_of_tleg_are_expanded_and_are_no_network():
    file = make.FILES["tleg_two_layers"]
    assert Learngene.load(file).num_layers == Learngene.load(file).architecture.depth == 2
    done("init", "--source", file, f"--arch={make.SMALL}", "--out=two.safetensors")
    first, slope = (Learngene.load(file).tensors[f"blocks.{layer}.mlp.fc1.weight"] for layer in (0, 1))
    assert torch.equal(load_file("two.safetensors")["blocks.1.mlp.fc1.weight"], torch.add(first, slope, alpha=0.5))
    result = lgx("init", "--source", file, "--method=pretrained", f"--arch={make.SMALL}", "--out=no")
    assert (result.code, Path("no").exists()) == (2, False)
    assert "holds 2 layers of tleg, not a whole network" in result.sentence


def test_an_ancestor_is_a_teacher_and_a_source_of_all_that_reads_networks():
    options = [*make.FIT, *make.SHAPES, *make.TAUGHT, "--trainer.max_epochs=1", "--runs_dir=new", "--name=new"]
    done("fit", "--model=Distill", *options, f"--model.arch={make.SMALL}")
    for method in ("pretrained", "vanilla_lg", "weight_selection"):
        depth = make.ARCH if method == "pretrained" else make.SMALL
        given = ["--layers=2"] if method == "vanilla_lg" else []
        out = done(
            "init",
            "--source",
            make.FILES["ancestor"],
            "--method",
            method,
            f"--arch={depth}",
            "--out=x",
            "--force",
            *given,
        )
        assert f"method    {method} from" in out.out


def test_tal_goes_on_from_a_hypernetwork_and_reads_task_embeddings():
    stored = TaskEmbeddings.load("task_embeddings.safetensors")
    assert (sorted(stored.tensors), stored.width) == (sorted(make.DATA), 8)
    assert stored.ancestor == make.FILES["ancestor"]
    assert [stored.tasks[name]["num_classes"] for name in make.DATA] == [3, 3]
    model, *options = make.LEARNERS["tal"]
    place = ["--runs_dir=new", "--name=tal", "--trainer.max_epochs=1", f"--model.arch={make.ARCH}"]
    done("fit", model, *make.FIT, *place, *options, "--model.start", make.FILES["tal"])
    source = ["--source", make.FILES["tal"], f"--arch={make.DEEP}", "--task=colours"]
    for name, more in (("a", []), ("b", ["--task_embeddings=task_embeddings.safetensors"])):
        done("init", *source, *more, f"--out={name}.safetensors")
    a, b = (load_file(f"{name}.safetensors") for name in "ab")
    assert a.keys() == b.keys()
    assert all(torch.equal(tensor, b[name]) for name, tensor in a.items())


# Runs ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", make.KEPT)
def test_a_run_resumes_to_the_results_of_then(name):
    folder = Path(RUN.format(name))
    done("fit", "--config", folder / "config.yaml", "--ckpt_path", "last", "--trainer.max_epochs", 4)
    rows = [row for row in numbers(folder / "results.csv") if (row["split"], row["epochs"]) != ("test", "2")]
    assert rows == numbers(f"four_epochs/{name}.csv")
    assert json.loads((folder / "summary.json").read_text())["epochs"] == 4


def test_results_summaries_and_sources_of_runs_are_read():
    records = {name: RunRecord.at(Path(RUN.format(name))) for name in make.KEPT}
    assert [record.method for record in records.values()] == ["sws", "sws_order2", "logah", "lsamd"]
    assert all((record.epochs, record.summary["lgx_version"]) == (2, "0.1.0") for record in records.values())
    assert records["sws"].teacher == make.FILES["ancestor"]
    start = records["descendant"].start
    assert (start.name, start.arguments["source"]) == ("StagewiseExpansion", make.FILES["sws"])
    found = merge(find_results(["trained/released"]))
    costs = {cost.method: cost for cost in method_costs(found.rows, found.rows, found.folders)[0]}
    stored = {"sws_order2": "sws", "logah": "logah"}
    assert {method: cost.stored for method, cost in costs.items() if method in stored} == {
        method: Learngene.load(make.FILES[name]).num_parameters for method, name in stored.items()
    }
    assert costs["sws_order2"].learning.epochs == 2
    result = done("compare", "--cost", "trained/released")
    assert "sws_order2" in result.out
    assert deprecations(result) == []


READERS = [
    (["test", "--config={descendant}/config.yaml", "--ckpt_path=last"], "loss 1.084"),
    (["validate", "--config={lsamd}/config.yaml", "--ckpt_path=last"], "val accuracy"),
    (["plan", "--config={descendant}/config.yaml"], "parameters trained"),
    (["export", "{descendant}/checkpoints/last.ckpt", "--out=new"], "3 classes"),
    (["init", "--source={descendant}/checkpoints/last.ckpt", f"--arch={make.ARCH}", "--out=new"], "pretrained from"),
    (["extract", "{lsamd}", "--threshold=0", "--out=new.learngene.safetensors"], "blocks.1 blocks.2 blocks.3"),
    (["analyze", "paths", "--runs={lsamd}"], "colours"),
    (["analyze", "tasks", f"--learngene={make.FILES['tal']}", f"--archs={make.SMALL};{make.ARCH}"], "2 tasks"),
    (["analyze", "parameters", "--start=exported", "--trained=exported"], "change magnitude"),
]


@pytest.mark.parametrize(("words", "expected"), READERS, ids=[" ".join(words[:2]) for words, _ in READERS])
def test_commands_read_the_files_of_runs(words, expected):
    folders = {name: RUN.format(name) for name in make.KEPT}
    assert expected in done(*(word.format(**folders) for word in words)).out


@pytest.mark.parametrize("name", ["sws", "logah", "lsamd"])
def test_a_checkpoint_of_another_network_than_its_architecture_is_refused(name):
    result = lgx("export", f"{RUN.format(name)}/checkpoints/last.ckpt", "--out=new")
    assert (result.code, Path("new").exists()) == (2, False)
    assert f"holds no plain network of its architecture; give best{SUFFIX} of that run" in result.sentence


def test_an_exported_folder_is_a_model_of_timm_and_a_source():
    model = timm.create_model("local-dir:exported", pretrained=True)
    state = model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in load_file("exported/model.safetensors").items())
    assert len(model.blocks) == 3
    done("init", "--source", make.FILES["sws"], f"--arch=depth=3,{make.SIZE}", "--out=again")
    for source in ("exported", "local-dir:exported", "exported/model.safetensors"):
        done("init", "--source", source, f"--arch=depth=3,{make.SIZE}", "--out=copied", "--force")
        for folder in ("again", "copied"):
            found = load_file(f"{folder}/model.safetensors")
            assert found.keys() == state.keys()
            assert all(torch.equal(found[name], tensor) for name, tensor in state.items())


# Configurations ------------------------------------------------------------------------------------------------------

SENTENCE = "deprecated: {} is {} now; the next release refuses the old spelling"
SPELLINGS = {
    **{name: (f"lgx.initializers.{name}", f"lgx.methods.{name}") for name, *_ in make.INITIALIZERS.values()},
    "SearchedExpansion": ("lgx.initializers.SearchedExpansion", "lgx.methods.SelectedExpansion"),
    "learngene": ("option learngene of an initializer", "source"),
    "hypernet": ("option hypernet of an initializer", "source"),
    "neighbour": ("repeat neighbour", "repeat neighbor"),
}


def old_words(name):
    """What is deprecated in the saved configuration of an initializer."""
    kind, *options = make.INITIALIZERS[name]
    named = [option.partition("=")[0] for option in options]
    return [kind, *(word for word in ("learngene", "hypernet") if word in named), *["neighbour"] * (name == "lsamd")]


@pytest.mark.parametrize("name", make.INITIALIZERS)
def test_a_configuration_of_every_initializer_parses_and_trains(name):
    config = f"configs/{name}.yaml"
    shown = done("fit", "--config", config, "--print_config")
    assert deprecations(shown) == [SENTENCE.format(*SPELLINGS[word]) for word in old_words(name)]
    present = SPELLINGS[old_words(name)[0]][1]
    assert yaml.safe_load(shown.out)["model"]["init_args"]["initializer"]["class_path"] == present
    done("fit", "--config", config, "--trainer.max_epochs=1")
    saved = Path("trained/released", f"from_{name}", "seed0")
    assert (saved / "summary.json").exists()
    assert not any(word in (saved / "config.yaml").read_text() for word in ("initializers", "learngene:", "neighbour"))


# Sweeps and studies --------------------------------------------------------------------------------------------------


def test_a_stopped_sweep_goes_on():
    result = done("sweep", "sweep.yaml", "--runs_dir", "trained")
    assert "4 of 5 runs to do" in result.out  # the results of the second run were not collected yet
    assert "sws-3 seed 0, started by an earlier command" in result.out
    assert deprecations(result) == [SENTENCE.format(*SPELLINGS["learngene"])]
    assert numbers("trained/swept/measured.csv") == numbers("ended/swept.csv")
    assert "0 of 5 runs to do" in done("sweep", "sweep.yaml", "--runs_dir", "trained").out


def test_a_stopped_study_is_read():
    pytest.importorskip("optuna", reason="needs the sweep extra")
    from lgx.runs.study import open_study
    from lgx.runs.tuning import load_tuning

    tuning = load_tuning("tune.yaml", "trained")
    study = open_study(tuning)
    assert [(trial.state.name, trial.value) for trial in study.trials] == [
        ("COMPLETE", pytest.approx(1 / 3)),
        ("RUNNING", None),
    ]
    assert [set(trial.params) for trial in study.trials] == [set(tuning.space)] * 2


@pytest.mark.slow
def test_a_stopped_study_goes_on():
    pytest.importorskip("optuna", reason="needs the sweep extra")
    result = done("tune", "tune.yaml", "--runs_dir", "trained")
    assert "1 of 2 trials to do" in result.out
    assert numbers("trained/tuned/trial1/seed0/results.csv") == numbers("ended/trial1.csv")


# Command lines -------------------------------------------------------------------------------------------------------

WORDS = {
    **make.FILES,
    "deep": make.DEEP,
    "run": RUN.format("lsamd"),
    "init": f"init --out=new --arch={make.DEEP}",
    "fit": "fit --config=sweep_descendant.yaml --print_config",
    "start": "--model.initializer",
}
LEARNGENE, REPEAT = "option learngene of an initializer is source", "repeat neighbour is repeat neighbor"
FIGURES = "lgx.training.callbacks.DrawFigures"
LINES = [
    ("{init} --learngene {sws}", "--learngene", "--source", "--learngene is --source"),
    ("{init} --head=3 --source {lsamd} --repeat neighbour", "neighbour", "neighbor", REPEAT),
    ("analyse paths --runs={run}", "analyse", "analyze", "lgx analyse is lgx analyze"),
    ("{fit} {start}=StagewiseExpansion {start}.learngene={sws}", ".learngene=", ".source=", LEARNGENE),
    ("{fit} {start} StagewiseExpansion {start}.learngene {sws}", ".learngene ", ".source ", LEARNGENE),
    ("{fit} {start}=HypernetPrediction {start}.hypernet={tal}", "hypernet=", "source=", "option hypernet of an"),
    (
        "{fit} {start} lgx.initializers.VanillaLG {start}.source=x",
        "lgx.initializers",
        "lgx.methods",
        "lgx.initializers.",
    ),
    ("{fit} {start} SearchedExpansion {start}.source=x", "Searched", "Selected", "SearchedExpansion is Selected"),
    ("{fit} {start} SelectedExpansion {start}.source=x {start}.repeat=neighbour", "neighbour", "neighbor", REPEAT),
    (
        "{fit} --model.scheduler=lgx.optim.WarmupCosine",
        "lgx.optim",
        "lgx.components.optim",
        "lgx.optim.WarmupCosine is",
    ),
    (
        "{fit} --trainer.callbacks+=lgx.callbacks.DrawRouting",
        "lgx.callbacks.DrawRouting",
        FIGURES,
        "lgx.callbacks.Draw",
    ),
    ("{fit} --overwrite true", " true", "", None),
    ("arch {deep} --json true", " true", "", None),
    ("arch {deep} --json=true", "=true", "", None),
    ("sweep sweep.yaml --dry_run true", " true", "", None),
]
"""Command line of lgx 0.1.0, what is replaced in it, by what, and what the deprecation says; None without one."""


@pytest.mark.parametrize(("line", "old", "present", "said"), LINES, ids=[line for line, *_ in LINES])
def test_an_old_spelling_works_and_is_reported_once(line, old, present, said):
    filled = line.format(**WORDS)
    found, expected = done(*filled.split()), done(*filled.replace(old, present).split())
    assert found.out == expected.out != ""
    assert deprecations(expected) == []
    assert len(deprecations(found)) == (said is not None)
    assert said is None or deprecations(found)[0].startswith(f"deprecated: {said}")
