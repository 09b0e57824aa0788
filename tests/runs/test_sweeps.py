"""A sweep runs the runs that are missing, in order, and none twice; edited ones are named, and run again on request."""

import json
import shutil
from functools import wraps

import pytest
import yaml
from lightning.pytorch import Trainer

from lgx.core.rows import read_rows
from lgx.runs.sweeps import RunSpec, load_sweep, needed_runs, pending_runs, run_arguments
from tests.support.command_line import ARCH, lgx, ok, python, refusal
from tests.support.sweeps import config_of, write_chain, write_sweep


@pytest.fixture
def sweep_file(images, tmp_path):
    for method, own in {"Ancestor": {}, "SWS": {"stages": [2, 2]}, "Finetune": {}}.items():
        config = config_of(method, images, model=own, test_end=True)
        (tmp_path / f"{method}.yaml").write_text(yaml.safe_dump(config))
    learngene = "{runs}/sws/seed{seed}/final.learngene.safetensors"
    start = {"model.initializer": "StagewiseExpansion", "model.initializer.source": learngene}
    ancestor = {"model.ancestor": "{runs}/ancestor/seed{seed}"}
    matrix = {"depth": [2, 3], "start": {"sws": start, "random": {}}}
    test = {"name": "{start}-{depth}", "command": "test", "config": "Finetune.yaml", "matrix": matrix}
    return write_sweep(
        tmp_path,
        {"name": "ancestor", "config": "Ancestor.yaml"},
        {"name": "sws", "config": "SWS.yaml", "options": ancestor},
        {**test, "options": {"model.arch": ARCH.replace("depth=4", "depth={depth}")}},
    )


def test_matrices_expand_in_order_with_their_options(sweep_file):
    sweep = load_sweep(sweep_file, "r")
    assert [spec.name for spec in sweep.runs] == ["ancestor", "sws", "sws-2", "random-2", "sws-3", "random-3"]
    last = sweep.runs[4]
    assert last.folder == "r/s/sws-3/seed0"
    assert last.options["model.initializer.source"] == "r/s/sws/seed0/final.learngene.safetensors"
    assert "--untrained" in run_arguments(last, "r", "s")
    assert run_arguments(sweep.runs[0], "r", "s")[0] == "fit"


def test_variables_are_replaced_in_lists_and_mappings_too(tmp_path):
    options = {"data.tasks": ["mini_{task}", "pocket_digits"], "model.learning_rates": {"a": "{task}", "b": 1.0e-3}}
    entry = {"name": "{task}", "config": "a.yaml", "options": options, "matrix": {"task": ["gtsrb"]}}
    (spec,) = load_sweep(write_sweep(tmp_path, entry), "r").runs
    assert spec.options["data.tasks"] == ["mini_gtsrb", "pocket_digits"]
    assert spec.options["model.learning_rates"] == {"a": "gtsrb", "b": 1.0e-3}


def test_files_and_folders_of_runs_are_found_anywhere_in_the_options(tmp_path):
    folder = "{runs}/a/seed{seed}"
    nested = {"class_path": "Pretrained", "init_args": {"source": f"{folder}/best.ckpt"}}
    values = [folder, f"hf:{folder},depth=2", nested, [f"{folder}/model"], "{runs}/b"]
    entries = [{"name": f"r{n}", "config": "c.yaml", "options": {"x": value}} for n, value in enumerate(values)]
    sweep = load_sweep(write_sweep(tmp_path, {"name": "a", "config": "c.yaml"}, *entries), "r")
    assert [*needed_runs(sweep).values()] == [set(), *[{"r/s/a/seed0"}] * 4, set()]


def test_a_sweep_runs_once_resumes_and_rebuilds_only_what_is_needed(sweep_file, tmp_path):
    runs, results = tmp_path / "runs", tmp_path / "all.csv"
    command = ["sweep", sweep_file, "--runs_dir", runs, "--results", results]
    assert "6 of 6 runs to do" in ok(lgx(*command)).out
    rows = [r for r in read_rows(results) if r.metric == "acc"]
    assert {(r.method, r.epochs) for r in rows} == {("ancestor", 1), ("sws", 1), ("sws", 0), ("random", 0)}
    assert "0 of 6 runs to do" in lgx(*command).out

    sweep = load_sweep(sweep_file, str(runs))
    kept = results.read_text().splitlines()
    results.write_text("\n".join(line for line in kept if "sws-3" not in line) + "\n")
    assert [spec.name for spec in pending_runs(sweep, results)] == ["sws-3"]
    shutil.rmtree(runs / "s" / "sws")
    assert [spec.name for spec in pending_runs(sweep, results)] == ["sws", "sws-3"]
    shutil.rmtree(runs / "s" / "ancestor")
    assert [spec.name for spec in pending_runs(sweep, results)] == ["ancestor", "sws", "sws-3"]


@pytest.mark.parametrize(
    ("value", "text"),
    [(float("inf"), ".inf"), (3e-4, "0.0003"), (None, "null"), (True, "true"), ({"a": ["b", 2]}, "{a: [b, 2]}")],
)
def test_options_become_text_that_the_command_line_reads_back(tmp_path, value, text):
    spec = RunSpec("a", 0, str(tmp_path), "fit", "c.yaml", {"data.x": value})
    assert run_arguments(spec, "runs", "e")[-1] == f"--data.x={text}"
    assert yaml.safe_load(text) == value


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sedes": [1]}, "exactly the keys experiment, seeds and runs"),
        ({"seeds": [True]}, "seeds must be a list of whole numbers"),
        ({"seeds": [0, -1]}, "s.yaml: seeds: a seed is a whole number from 0 to 4294967295 (2**32 - 1), got -1"),
        ({"experiment": "../evil"}, "s.yaml: experiment: '../evil' is not the name of a subfolder"),
        ({"runs": [{"name": "x", "config": "c", "options": {"model.label": True}}]}, "model.label is True, expected"),
        ({"runs": [{"name": "x"}]}, "must have name and config"),
        ({"runs": [{"name": "x", "config": "c", "command": "fti"}]}, "run 'x': command is 'fti', expected fit or test"),
        ({"runs": [{"name": "x", "config": "c", "matrix": {"d": {6: "a"}}}]}, "a mapping from every value"),
        (
            {"runs": [{"name": "x-{d}", "config": "c", "matrix": {"d": ["/../../b"]}}]},
            "name: 'x-/../../b' is not the name",
        ),
        (
            {"runs": [{"name": "x", "config": "c", "options": {"model.label": "l_{a}"}, "matrix": {"a": [0.5]}}]},
            "run 'x': model.label: expected letters, digits and underscores, got 'l_0.5'",
        ),
        ({"runs": [{"name": "x", "config": "c"}, {"name": "x", "config": "c"}]}, "different names"),
        (
            {"runs": [{"name": a, "config": "c", "options": {"x": f"{{runs}}/{b}/seed0/f"}} for a, b in ("xy", "yx")]},
            "in a cycle",
        ),
    ],
)
def test_a_wrong_value_in_a_sweep_file_is_named(tmp_path, change, words):
    content = {"experiment": "e", "seeds": [0], "runs": [{"name": "x", "config": "c"}], **change}
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(content))
    assert words in refusal(lgx("sweep", tmp_path / "s.yaml"))


@pytest.mark.slow
def test_a_sweep_starts_all_processes_of_every_run(images, tmp_path):
    trainer = {"devices": 2, "strategy": "ddp"}
    config = config_of("Ancestor", images, {"batch_size": 8}, trainer=trainer, test_end=True)
    (tmp_path / "c.yaml").write_text(yaml.safe_dump(config))
    sweep = write_sweep(tmp_path, {"name": "x", "config": "c.yaml"}, seeds=(0, 1))
    done = python("-m", "lgx", "sweep", sweep, "--runs_dir", tmp_path / "runs", OMP_NUM_THREADS="1")
    assert done.returncode == 0, done.stderr[-3000:]
    for seed in (0, 1):
        assert json.loads((tmp_path / f"runs/s/x/seed{seed}/summary.json").read_text())["processes"] == 2


def test_the_validation_of_a_run_without_a_test_is_collected_unless_another_run_needs_it(images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_chain(tmp_path, images, {"test_end": False})
    for _ in range(2):  # the second time, only the run without rows is to do
        ok(lgx("sweep", "sweep.yaml"))
        rows = read_rows(tmp_path / "runs/s/measured.csv")
        assert {(row.run.split("/")[-2], row.split) for row in rows} == {("f", "test")}
    write_sweep(tmp_path, {"name": "rate", "config": "Ancestor.yaml", "options": {"test_end": False}})
    ok(lgx("sweep", "sweep.yaml"))
    rows = read_rows(tmp_path / "runs/s/measured.csv")
    assert {(row.run.split("/")[-2], row.split) for row in rows} == {("f", "test"), ("rate", "val")}
    assert "0 of 1 runs to do" in lgx("sweep", "sweep.yaml").out


@pytest.fixture
def sweep(images, tmp_path, monkeypatch):
    """Write a sweep of an ancestor and its descendant, and run it."""
    monkeypatch.chdir(tmp_path)

    def run(*options, rate=0.003, epochs=1, smoothing=0.0):
        adamw = {"class_path": "torch.optim.AdamW", "init_args": {"lr": rate}}
        options_of_a = {"model.label_smoothing": smoothing}
        write_chain(tmp_path, images, options_of_a, model={"optimizer": adamw}, trainer={"max_epochs": epochs})
        return lgx("sweep", "sweep.yaml", *options)

    return run


def values(tmp_path):
    return {(row.method, row.metric, row.epochs): row.value for row in read_rows(tmp_path / "runs/s/measured.csv")}


@pytest.mark.parametrize(
    "stopped_at", ["the run that changed", pytest.param("the run that needs it", marks=pytest.mark.slow)]
)
def test_edited_options_are_named_and_stay_to_do_until_the_runs_that_need_them_have_ended(
    sweep, tmp_path, monkeypatch, stopped_at
):
    assert sweep().code == 0
    before = values(tmp_path)
    assert "0 of 2 runs to do" in sweep().out
    sentence = refusal(sweep(smoothing=0.3))
    assert "1 finished run(s) have changed" in sentence
    assert "--model.label_smoothing=0.3" in sentence
    number = 0 if stopped_at == "the run that changed" else 1
    fit, trained = Trainer.fit, 0

    @wraps(fit)
    def stop(self, *args, **kwargs):
        nonlocal trained
        fit(self, *args, **kwargs)
        trained += 1
        if trained > number:
            raise RuntimeError("stopped")

    with monkeypatch.context() as patched:
        patched.setattr(Trainer, "fit", stop)
        assert "stopped" in sweep("--overwrite", smoothing=0.3).sentence
    assert f"{2 - number} of 2 runs to do" in ok(sweep("--overwrite", smoothing=0.3)).out
    after = values(tmp_path)
    assert after.keys() == before.keys()
    assert all(after[key] != before[key] for key in before if key[1] == "loss")
    assert "0 of 2 runs to do" in sweep(smoothing=0.3).out


def test_a_test_that_is_run_again_leaves_no_rows_of_its_former_options(images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def measure(depth, *options):
        (tmp_path / "c.yaml").write_text(yaml.safe_dump(config_of("Finetune", images)))
        arch = {"model.arch": ARCH.replace("depth=4", f"depth={depth}")}
        write_sweep(tmp_path, {"name": "start", "command": "test", "config": "c.yaml", "options": arch})
        ok(lgx("sweep", "sweep.yaml", *options))
        return {row.architecture for row in read_rows(tmp_path / "runs/s/measured.csv")}

    first = measure(2)
    second = measure(3, "--overwrite")
    assert len(first) == len(second) == 1
    assert first != second


def test_an_edited_configuration_is_named_and_a_longer_training_keeps_what_was_measured(sweep, tmp_path):
    assert sweep().code == 0
    sentence = refusal(sweep(rate=0.01))
    assert "2 finished run(s) have changed" in sentence
    assert "Ancestor.yaml has changed" in sentence
    ok(sweep("--overwrite", epochs=2))
    assert {key[2] for key in values(tmp_path)} == {1, 2}
