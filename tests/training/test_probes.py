"""``lgx test --probe``: a network's features without its head."""

import pytest
import torch

from data_modules import ImageFolderData
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import read_rows
from tests.support.command_line import arguments, lgx, ok, refusal
from tests.support.fake_masks import SMALL


def rows_of(tmp_path, name):
    return {row.metric: row for row in read_rows(tmp_path / f"runs/test/{name}/seed0/results.csv")}


def test_a_probe_reads_images_in_the_precision_of_the_network(fit, ancestor, tmp_path):
    path = f"--ckpt_path={ancestor}/checkpoints/best.ckpt"
    ok(fit("Ancestor", path, "--name=p", "--probe=knn", "--trainer.precision=bf16-true", command="test"))
    assert rows_of(tmp_path, "p")["knn_acc"].value > 0.5


@pytest.mark.parametrize("probe", ["knn", "linear"])
def test_a_probe_of_a_checkpoint_writes_its_own_metric(fit, ancestor, tmp_path, probe):
    path = f"--ckpt_path={ancestor}/checkpoints/best.ckpt"
    ok(fit("Ancestor", path, "--name=p", f"--probe={probe}", command="test"))
    rows = rows_of(tmp_path, "p")
    assert set(rows) == {f"{probe}_acc"}
    row = rows[f"{probe}_acc"]
    assert row.split == "test"
    assert row.n == 12
    assert row.epochs > 0
    assert row.value > 0.5
    ok(fit("Ancestor", path, "--name=again", f"--probe={probe}", command="test"))
    assert rows_of(tmp_path, "again")[f"{probe}_acc"].value == row.value


def test_an_untrained_start_and_a_headless_ancestor_are_probed_like_any_network(fit, ancestor, tmp_path):
    learngene = Learngene.load(ancestor / "final.learngene.safetensors")
    headless = {name: tensor for name, tensor in learngene.tensors.items() if not name.startswith("head.")}
    Learngene("ancestor", learngene.architecture.replace(num_classes=0), headless, task=learngene.task).save(
        tmp_path / "headless.learngene.safetensors"
    )
    found = {}
    for name, source in (("whole", ancestor / "final"), ("none", tmp_path / "headless")):
        options = [f"--model.initializer.source={source}.learngene.safetensors", "--model.head=new", "--untrained"]
        options.append(f"--name={name}")
        ok(fit("Finetune", "--model.initializer=Pretrained", *options, "--probe=knn", command="test"))
        found[name] = rows_of(tmp_path, name)["knn_acc"]
    assert found["whole"].value == found["none"].value
    assert found["whole"].epochs == 0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--probe=svm"], ("svm",)),
        (["--probe=linear", "--data.limit_train=1", "--data.batch_size=1"], ("are of class", "at least two classes")),
    ],
)
def test_a_probe_that_cannot_be_fitted_is_refused(fit, options, words):
    sentence = refusal(fit("Finetune", "--untrained", *options, command="test"))
    assert all(word in sentence for word in words), sentence


def test_a_network_that_is_not_the_one_of_its_architecture_and_another_command_are_refused(fit, sws, ancestor):
    teacher = f"--model.ancestor={ancestor}/final.learngene.safetensors"
    sentence = refusal(fit("SWS", "--model.stages=[2,2]", teacher, "--untrained", "--probe=knn", command="test"))
    assert "lgx init" in sentence
    assert "probe" in refusal(fit("Finetune", "--probe=knn"))


@pytest.mark.parametrize(
    ("arch", "data", "words"),
    [
        (SMALL, ["--data=ADE20K"], "task ade20k is segmentation"),
        ("hf:depth=1,embed_dim=16,num_heads=2", ["--data=CoLA"], "task cola is text"),
        (SMALL, ["--data=MultiTask", "--data.tasks=[pocket_digits,pocket_roses]"], "needs one data set"),
    ],
    ids=["segmentation", "text", "several"],
)
def test_other_tasks_than_the_classes_of_whole_images_are_refused(tmp_path, arch, data, words):
    kept = [word for word in arguments("test", "Finetune", tmp_path, tmp_path / "runs") if "data" not in word]
    result = lgx(*kept, f"--model.arch={arch}", *data, f"--data.root={tmp_path}", "--untrained", "--probe=knn")
    assert result.code == 2
    assert words in result.sentence, result.sentence


def test_of_too_many_training_images_some_of_each_class_are_drawn_and_reported(images, capsys):
    data = ImageFolderData(root=str(images), img_size=16, batch_size=4)
    data.setup("fit")
    labels = torch.cat([batch.targets for batch in data.reference_dataloader(12)])
    assert labels.bincount().tolist() == [4, 4, 4]
    assert "12 of the 48 training examples of shapes, class by class" in capsys.readouterr().out
    assert sum(len(batch.inputs) for batch in data.reference_dataloader(48)) == 48
    assert capsys.readouterr().out == ""
