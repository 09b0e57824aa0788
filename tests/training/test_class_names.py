"""A network meets the classes that it was trained on, in any order, or none."""

import csv
import shutil
from pathlib import Path

import pytest
import timm
import torch

from data_modules import ImageFolderData
from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.components.teacher import Teacher
from lgx.core.rows import read_rows
from lgx.core.task import Task
from lgx.errors import UserError
from tests.support.command_line import Result, arguments, lgx, ok, refusal

NEW = "renamed"
"""A name that moves the first class to the second place."""


@pytest.fixture(scope="module")
def trained(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder of an ancestor that tells the three shapes apart."""
    runs = tmp_path_factory.mktemp("trained")
    options = ["--trainer.max_epochs=12", "--name=a", "--model.optimizer.lr=0.01"]
    ok(lgx(*arguments("fit", "Ancestor", images, runs, *options)))
    run = runs / "test/a/seed0"
    assert command("test", run, images).code == 0
    return run


@pytest.fixture
def renamed(images: Path, tmp_path: Path) -> Path:
    """The same images with one class renamed."""
    return Path(shutil.copytree(images, tmp_path / "renamed"))


def rename_first(root: Path) -> str:
    first = min(path.name for path in (root / "train").iterdir())
    for split in ("train", "val", "test"):
        (root / split / first).rename(root / split / NEW)
    return first


def reverse(root: Path) -> None:
    (root / "classes.txt").write_text("\n".join(sorted((p.name for p in (root / "train").iterdir()), reverse=True)))


def command(verb: str, trained: Path, root: Path, *options: str) -> Result:
    config = ["--config", str(trained / "config.yaml"), f"--data.root={root}"]
    return lgx(verb, *config, "--ckpt_path=best", *options)


def accuracy(run: Path, split: str = "test") -> float:
    return [row.value for row in read_rows(run / "results.csv") if (row.split, row.metric) == (split, "acc")][-1]


@pytest.mark.parametrize("verb", ["test", "validate", "predict"])
def test_a_renamed_class_is_refused_and_no_row_is_replaced(trained, renamed, verb):
    before, first = (trained / "results.csv").read_bytes(), rename_first(renamed)
    assert f"lacks '{first}' and has '{NEW}'" in refusal(command(verb, trained, renamed))
    assert (trained / "results.csv").read_bytes() == before


def test_classes_in_another_order_are_the_same_classes(trained, renamed, tmp_path):
    good = accuracy(trained)
    assert good > 0.6
    reverse(renamed)
    ok(command("test", trained, renamed))
    assert accuracy(trained) == good
    assert command("validate", trained, renamed).code == 0
    ok(command("predict", trained, renamed))
    with next(trained.glob("predictions*.csv")).open() as file:
        rows = list(csv.DictReader(file))
    right = sum(Path(row["file"]).parts[0] == row["name"] for row in rows)
    assert right / len(rows) == pytest.approx(good)


def test_training_does_not_go_on_with_classes_in_another_order(images, trained, renamed, tmp_path):
    same_name = renamed.rename(tmp_path / images.name)
    reverse(same_name)  # the optimizer's state and averaged weights have an order, too
    last = f"--ckpt_path={trained}/checkpoints/last.ckpt"
    options = ["--trainer.max_epochs=13", "--model.optimizer.lr=0.01", "--name=on", last]
    done = lgx(*arguments("fit", "Ancestor", same_name, tmp_path / "runs", *options))
    assert (done.code, "another order than in training" in done.sentence) == (2, True), done.err


def test_a_hypernetwork_of_one_task_is_tested_on_its_classes_whatever_the_folders_name(images, renamed, tmp_path):
    small = ["--model.width=16", "--model.layers=1", "--model.heads=2", "--model.set_size=3", "--name=g"]
    panel = '--model.panel=["depth=2,embed_dim=16,num_heads=2"]'
    ok(lgx(*arguments("fit", "GHN3", images, tmp_path / "runs", *small, panel)))
    run = tmp_path / "runs/test/g/seed0"
    assert command("test", run, images, "--data.name=other").code == 0
    reverse(renamed)
    assert "another order" in command("test", run, renamed).sentence
    (renamed / "classes.txt").unlink()
    rename_first(renamed)
    assert f"has '{NEW}'" in command("test", run, renamed).sentence
    start = ["--model.initializer=HypernetPrediction", "--untrained", "--name=start"]  # its heads are for any classes
    start += [f"--model.initializer.source={run}/final.learngene.safetensors"]
    ok(lgx(*arguments("test", "Finetune", renamed, tmp_path / "runs", *start)))


@pytest.mark.parametrize("kept", ["Pretrained", "distilled start", "exported"])
def test_a_kept_head_follows_the_order_of_the_data_or_is_refused(trained, renamed, tmp_path, kept):
    source = str(trained / "final.learngene.safetensors")
    if kept == "exported":
        assert lgx("export", trained / "checkpoints/best.ckpt", "--out", tmp_path / "folder").code == 0
        source = str(tmp_path / "folder")
    model, options = "Finetune", ["--model.initializer=Pretrained", f"--model.initializer.source={source}"]
    if kept == "distilled start":
        model, options = "Distill", [f"--model.ancestor={source}", "--model.start=middle"]
    reverse(renamed)
    ok(lgx(*arguments("test", model, renamed, tmp_path / "runs", *options, "--untrained", "--name=kept")))
    assert accuracy(tmp_path / "runs/test/kept/seed0") == pytest.approx(accuracy(trained))
    (renamed / "classes.txt").unlink()
    first = rename_first(renamed)
    done = lgx(*arguments("fit", model, renamed, tmp_path / "runs", *options, "--name=refused"))
    assert (done.code, f"lacks '{first}' and has '{NEW}'" in done.sentence) == (2, True), done.err


def test_a_teacher_answers_in_the_order_of_the_data(trained, renamed):
    source, images = load_pretrained(str(trained / "final.learngene.safetensors")), torch.randn(4, 3, 16, 16)
    before = ImageFolderData(root=str(renamed), img_size=16).task
    reverse(renamed)
    after = ImageFolderData(root=str(renamed), img_size=16).task
    assert torch.equal(Teacher.of(source, after)(images), Teacher.of(source, before)(images).flip(1))


def test_a_teacher_of_features_may_know_other_classes():
    model = timm.create_model("test_resnet", num_classes=2)  # of no architecture of lgx, so that it is tried
    source = PretrainedNetwork("zoo", model, None, (0.5,) * 3, (0.5,) * 3, label_names=("a", "b"))
    task = Task("t", 2, class_names=("cat", "dog"), img_size=64)
    assert Teacher.of(source, task, features_only=True).features(torch.zeros(1, 3, 64, 64)).shape[0] == 1
    with pytest.raises(UserError, match="lacks 'a', 'b' and has 'cat', 'dog'"):
        Teacher.of(source, task)
