"""Images with several labels: training, distillation, prediction, and what tells them from one class."""

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score

from data_modules import MultiLabelFolderData
from lgx.artifacts.checkpoints import weights_of_run
from lgx.artifacts.pretrained import load_pretrained
from lgx.components.metrics import metrics_for, update_metrics
from lgx.core.rows import read_rows
from lgx.core.task import Task
from tests.support.command_line import Result, arguments, lgx, ok, refusal
from tests.support.label_tables import SHAPES, write_labeled

DATA = ["--data=MultiLabelFolderData", "--data.val_fraction=0.25", "--data.batch_size=8"]
STAGES = ["--model.stages=[2,2]"]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_labeled(tmp_path_factory.mktemp("labels") / "shapes", train=128, test=40)


@pytest.fixture(scope="module")
def trained(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs folder with an ancestor that was trained for six epochs, and tested before and after."""
    runs = tmp_path_factory.mktemp("runs")
    options = [*DATA, "--name=ancestor", "--trainer.max_epochs=6", "--test_start", "--test_end"]
    ok(lgx(*arguments("fit", "Ancestor", root, runs, *options, "--model.label_smoothing=0.05")))
    return runs


@pytest.fixture
def run(root: Path, tmp_path: Path) -> Callable[..., Result]:
    def call(model: str, *options: object, command: str = "fit", runs: Path = tmp_path / "runs") -> Result:
        return lgx(*arguments(command, model, root, runs, *DATA, *options))

    return call


def test_a_label_that_no_example_has_counts_as_zero_as_in_scikit_learn() -> None:
    targets, logits = np.array([[1, 0], [0, 0], [1, 0]]), np.array([[2.0, 0.5], [-1.0, 0.1], [0.5, -2.0]])
    metrics = metrics_for(Task("t", 2, kind="multilabel", metric="map"))
    update_metrics(metrics, torch.tensor(logits), torch.tensor(targets))
    assert float(metrics["map"].compute()) == pytest.approx(0.5)


def test_a_fit_learns_more_than_chance_and_writes_rows_with_the_metric(trained: Path, root: Path) -> None:
    rows = read_rows(trained / "test/ancestor/seed0/results.csv")
    tested = {row.epochs: row.value for row in rows if (row.split, row.metric) == ("test", "map")}
    lines = (root / "labels.csv").read_text().splitlines()
    chance = np.mean([[name in line for name in SHAPES] for line in lines if line.endswith("test")])
    assert tested[6] > chance + 0.25, "the average precision of a random order is the share of the label"
    assert tested[6] > tested[0] + 0.1
    assert {row.metric for row in rows if row.split == "val"} == {"map", "label_acc", "loss"}
    assert (trained / "test/ancestor/seed0/checkpoints/best.ckpt").is_file()


def test_predictions_have_the_probability_of_every_label_and_agree_with_the_test(trained: Path, run, root) -> None:
    folder = trained / "test/ancestor/seed0"
    for command in ("test", "predict"):
        given = ["--name=ancestor", f"--ckpt_path={folder}/checkpoints/last.ckpt"]
        assert run("Ancestor", *given, command=command, runs=trained).code == 0
    with (folder / "predictions.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["index", *SHAPES, "file"]
    assert [row[0] for row in rows] == [str(k) for k in range(40)]
    probabilities = np.array([[float(cell) for cell in row[1:-1]] for row in rows])
    lines = [line.split(",") for line in (root / "labels.csv").read_text().splitlines()[1:]]
    targets = np.array(
        [[name in labels.split(";") for name in SHAPES] for _, labels, split in lines if split == "test"]
    )
    measured = [r.value for r in read_rows(folder / "results.csv") if (r.split, r.metric) == ("test", "map")][-1]
    assert average_precision_score(targets, probabilities, average="macro") == pytest.approx(measured, abs=1e-4)


def test_an_ancestor_teaches_sws_whose_learngene_starts_a_descendant(trained: Path, run, tmp_path: Path) -> None:
    ancestor = trained / "test/ancestor/seed0/final.learngene.safetensors"
    ok(run("SWS", *STAGES, f"--model.ancestor={ancestor}", "--name=sws", "--trainer.max_epochs=2"))
    learngene = tmp_path / "runs/test/sws/seed0/final.learngene.safetensors"
    start = ["--model.initializer=StagewiseExpansion", f"--model.initializer.source={learngene}"]
    assert run("Finetune", *start, "--name=descendant", "--test_end").code == 0
    assert "mean average precision" in ok(lgx("compare", tmp_path / "runs", "--metric", "map")).out.lower()
    planned = arguments(
        "plan", "SWS", trained, tmp_path, *DATA, *STAGES, f"--model.ancestor={ancestor}", "--samples=96"
    )
    planned = [word for word in planned[1:] if not word.startswith(("--runs_dir", "--data.root"))]
    ok(lgx("plan", *planned, f"--data.root={write_labeled(tmp_path / 'again')}"))


@pytest.mark.parametrize("form", [pytest.param("net.onnx", marks=pytest.mark.slow), "net", "run"])
def test_exported_models_predict_every_label_of_files(trained: Path, root: Path, tmp_path: Path, form: str) -> None:
    run = trained / "test/ancestor/seed0"
    model = run
    if form != "run":
        model = tmp_path / form
        assert lgx("export", run, "--out", model).code == 0
    for _ in range(2):  # the second time the file is replaced
        ok(lgx("predict", root / "images", "--model", model, "--out", tmp_path / "labels.csv"))
    with (tmp_path / "labels.csv").open() as file:
        header, *rows = csv.reader(file)
    assert header == ["file", *SHAPES]
    network = load_pretrained(weights_of_run(str(run)))
    data = MultiLabelFolderData(root=str(root), img_size=16, mean=network.mean, std=network.std)
    data.setup("test")
    (batch,) = list(data.predict_dataloader())
    with torch.no_grad():
        expected = network.model(batch.inputs).sigmoid()
    found = torch.tensor([[float(cell) for cell in row[1:]] for row in rows[-40:]])
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=0)


def test_networks_for_one_class_and_for_several_labels_are_told_apart(trained: Path, run, ancestor: Path, fit) -> None:
    folders = ancestor, trained / "test/ancestor/seed0"
    single, several = (f"{folder}/final.learngene.safetensors" for folder in folders)
    sentence = refusal(run("SWS", *STAGES, f"--model.ancestor={single}"))
    assert "is for classification, but task shapes is multilabel; adapt it first" in sentence
    taught = fit("SWS", *STAGES, f"--model.ancestor={several}")
    assert "is for multilabel, but task shapes is classification" in taught.sentence
    start = ["--model.initializer=Pretrained", f"--model.initializer.source={single}"]
    assert "the head is for classification, but the descendant is for multilabel" in run("Finetune", *start).sentence
    assert run("Finetune", *start, "--model.head=new", "--trainer.fast_dev_run=true").code == 0
    unlabeled = refusal(run("SWS", *STAGES, f"--model.ancestor={several}", "--data.labels=false"))
    assert "predicts several labels; choose features, or give labels" in unlabeled
