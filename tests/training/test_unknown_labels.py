"""Labels that are unknown count neither in the loss of an update, however it is cut, nor in a metric."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.metrics import average_precision_score
from torch.nn import functional as F

from data_modules import MultiLabelFolderData
from lgx.components.losses import label_loss
from lgx.core.batch import IGNORE
from lgx.core.rows import read_rows
from tests.support.command_line import ARCH, arguments, lgx
from tests.support.label_tables import write_labeled
from tests.support.ranks import on_two_processes
from tests.training.test_updates import PLAIN, SGD, assert_same, network_in, trained


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16 training and 24 test images; every second one has unknown labels, two of the training images no known one."""
    folder = write_labeled(tmp_path_factory.mktemp("labels") / "shapes", columns=True, train=16)
    header, *rows = csv.reader((folder / "labels.csv").read_text().splitlines())
    for k, row in enumerate(rows):
        if k % 2:
            row[1:3] = "", "-1"
        if k in (4, 9):
            row[1:4] = "-1", "-1", ""
    (folder / "labels.csv").write_text("\n".join(",".join(row) for row in (header, *rows)))
    return folder


def of_labels(root: Path, runs: Path, model: str, *options: str) -> list[str]:
    kept = [part for part in arguments("fit", model, root, runs) if "WarmupCosine" not in part]
    own = ["--data=MultiLabelFolderData", f"--data.root={root}", "--data.img_size=16", "--data.val_fraction=0"]
    return [*[part for part in kept if not part.startswith("--data")], *own, *SGD, *options]


@pytest.mark.parametrize("model", ["Finetune", "Distill", "Distill features"])
def test_an_update_weighs_all_known_labels_alike(root: Path, tmp_path: Path, model: str) -> None:
    source, network = network_in(tmp_path, ARCH, 3, "multilabel")
    options = ["--model.initializer=Pretrained", f"--model.initializer.source={source}", "--model.label_smoothing=0.2"]
    if model != "Finetune":
        options = [f"--model.ancestor={source}", "--model.start=middle"]
        options += ["--model.guidance=features"] * model.endswith("features")
    kind, runs = model.split()[0], tmp_path / "runs"
    for name, batch, accumulated in (("whole", 16, 1), ("parts", 2, 8)):
        parts = [f"--data.batch_size={batch}", f"--trainer.accumulate_grad_batches={accumulated}", f"--name={name}"]
        done = lgx(*of_labels(root, runs, kind, *options, *parts))
        assert done.code == 0, done.err
    whole = trained(runs / "test/whole/seed0")
    assert_same(trained(runs / "test/parts/seed0"), whole)
    if model == "Finetune":
        module = MultiLabelFolderData(root=str(root), img_size=16, batch_size=16, val_fraction=0, **PLAIN)
        module.setup("fit")
        (batch_,) = module.train_dataloader()  # type: ignore[attr-defined]
        known = batch_.targets != IGNORE
        assert known.sum() < 0.7 * known.numel()
        wanted = batch_.targets[known] * 0.8 + 0.1
        F.binary_cross_entropy_with_logits(network(batch_.inputs)[known], wanted).backward()
        torch.optim.SGD(network.parameters(), lr=0.5).step()
        assert_same(whole, dict(network.state_dict()))


@pytest.mark.slow
def test_two_processes_weigh_all_known_labels_alike(root: Path, tmp_path: Path) -> None:
    source, _ = network_in(tmp_path, ARCH, 3, "multilabel")
    options = ["--model.initializer=Pretrained", f"--model.initializer.source={source}"]
    one = lgx(*of_labels(root, tmp_path / "runs", "Finetune", *options, "--data.batch_size=16", "--name=one"))
    assert one.code == 0, one.err
    two = [*options, "--data.batch_size=8", "--trainer.devices=2", "--trainer.strategy=ddp", "--name=two"]
    ends = on_two_processes({"two": of_labels(root, tmp_path / "runs", "Finetune", *two)}, tmp_path)
    assert ends == [{"two": ""}] * 2
    assert_same(*(trained(tmp_path / f"runs/test/{name}/seed0") for name in ("two", "one")))


def test_metrics_count_known_labels_as_scikit_learn_does(root: Path, tmp_path: Path) -> None:
    source, network = network_in(tmp_path, ARCH, 3, "multilabel")
    start = ["--model.initializer=Pretrained", f"--model.initializer.source={source}", "--untrained", "--name=start"]
    command = of_labels(root, tmp_path / "runs", "Finetune", *start, "--data.batch_size=4")
    done = lgx("test", *command[1:])
    assert done.code == 0, done.err
    module = MultiLabelFolderData(root=str(root), img_size=16, batch_size=24, **PLAIN)
    module.setup("test")
    (batch,) = module.test_dataloader()
    with torch.no_grad():
        logits = network.eval()(batch.inputs)
    known, targets = (batch.targets != IGNORE).numpy(), batch.targets.numpy()
    precisions = [average_precision_score(targets[k, c], logits[k, c]) for c, k in enumerate(known.T)]
    rows = {row.metric: row.value for row in read_rows(tmp_path / "runs/test/start/seed0/results.csv")}
    assert rows["map"] == pytest.approx(np.mean(precisions), abs=1e-5)
    assert rows["acc"] == pytest.approx(((logits.numpy() > 0) == targets)[known].mean(), abs=1e-6)
    assert rows["loss"] == pytest.approx(float(label_loss(logits, batch.targets)), rel=1e-5)
    assert float(label_loss(logits, torch.full_like(batch.targets, IGNORE))) == 0


def test_images_without_their_labels_ignore_unknown_ones(root: Path) -> None:
    module = MultiLabelFolderData(root=str(root), img_size=16, batch_size=16, val_fraction=0, labels=False)
    module.setup("fit")
    (batch,) = module.train_dataloader()  # type: ignore[attr-defined]
    assert batch.targets.tolist() == [0] * 16
