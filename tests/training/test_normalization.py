"""Descendants are trained, tested, predicted and exported in the normalization of their start."""

import json
from dataclasses import replace

import pytest
import torch

from data_modules import ImageFolderData, MultiTask
from lgx.architectures import parse_architecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.export import write_descendant
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import read_rows
from lgx.errors import UserError
from tests.support.command_line import ARCH, lgx, ok, refusal
from tests.support.untrained_learngenes import BIG, write_sws

MEAN, STD = [0.3, 0.5, 0.6], [0.5, 0.25, 0.2]
GIVEN = ["--data.mean=[0.1,0.2,0.3]", "--data.std=[0.9,0.8,0.7]"]


@pytest.fixture
def start(tmp_path):
    """A folder of a pretrained network with its own mean and std."""
    architecture = parse_architecture(ARCH, num_classes=3)
    write_descendant(tmp_path / "start", architecture.build(), architecture, tuple(MEAN), tuple(STD))
    return ["--model.initializer=Pretrained", f"--model.initializer.source={tmp_path / 'start'}"]


def normalization(run):
    about = load_checkpoint(run / "checkpoints" / "last.ckpt")["lgx"]
    assert about["normalization"] == {key: about["task"][key] for key in ("mean", "std")}
    return about["normalization"]


def accuracy(folder):
    return {(row.split, row.metric): row.value for row in read_rows(folder / "results.csv")}


def test_a_descendant_is_trained_and_exported_in_the_normalization_of_its_start(fit, start, tmp_path):
    result = ok(fit("Finetune", *start, "--name=a"))
    assert "normalize  mean 0.3, 0.5, 0.6, std 0.5, 0.25, 0.2, of the start (pretrained)" in result.out
    run = tmp_path / "runs/test/a/seed0"
    assert normalization(run) == {"mean": MEAN, "std": STD}
    assert lgx("export", run / "checkpoints/last.ckpt", "--out", tmp_path / "out").code == 0
    config = json.loads((tmp_path / "out/config.json").read_text())["pretrained_cfg"]
    assert (config["mean"], config["std"]) == (MEAN, STD)
    file = tmp_path / "out"
    again = lgx("init", "--source", file, "--method", "pretrained", "--arch", ARCH, "--out", tmp_path / "again")
    assert f"normalize mean 0.3, 0.5, 0.6, std 0.5, 0.25, 0.2, of {file}" in again.out


def test_a_checkpoint_is_evaluated_as_it_was_trained_even_without_its_start(fit, start, tmp_path):
    assert fit("Finetune", *start, "--name=a", "--test_end").code == 0
    (tmp_path / "start").rename(tmp_path / "moved")
    checkpoint = f"--ckpt_path={tmp_path}/runs/test/a/seed0/checkpoints/last.ckpt"
    for command in ("validate", "test", "predict"):
        assert "of the checkpoint's network" in ok(fit("Finetune", *start, checkpoint, "--name=b", command=command)).out
    trained, tested = (accuracy(tmp_path / f"runs/test/{name}/seed0") for name in "ab")
    assert tested["test", "loss"] == trained["test", "loss"]


def test_an_untrained_start_is_tested_in_its_own_normalization(fit, start):
    assert "normalize  mean 0.3" in ok(fit("Finetune", *start, "--untrained", "--name=u", command="test")).out


def test_another_normalization_that_the_user_gives_is_obeyed_with_a_warning(fit, start, tmp_path):
    with pytest.warns(UserWarning, match=r"mean 0\.1, 0\.2, 0\.3, .* was trained with mean 0\.3, 0\.5, 0\.6"):
        assert fit("Finetune", *start, *GIVEN, "--name=a").code == 0
    assert normalization(tmp_path / "runs/test/a/seed0")["mean"] == [0.1, 0.2, 0.3]


def test_a_run_resumes_in_its_normalization_without_its_start(fit, start, tmp_path):
    constant = ["Finetune", *start, "--model.scheduler=null"]
    assert fit(*constant, "--name=a", "--trainer.max_epochs=3").code == 0
    half = [*constant, "--name=b", "--trainer.max_epochs=1"]
    assert fit(*half).code == 0
    (tmp_path / "start").rename(tmp_path / "moved")
    ok(fit(*half[:-1], "--trainer.max_epochs=3", "--ckpt_path=last"))
    a, b = (load_checkpoint(tmp_path / f"runs/test/{name}/seed0/checkpoints/last.ckpt") for name in "ab")
    assert a["lgx"]["normalization"] == b["lgx"]["normalization"]
    assert all(torch.equal(a["state_dict"][key], b["state_dict"][key]) for key in a["state_dict"])
    assert "data.mean was null" in refusal(fit(*half[:-1], "--trainer.max_epochs=4", *GIVEN, "--ckpt_path=last"))


def test_the_learngene_of_an_adapted_ancestor_names_its_normalization(fit, start, tmp_path):
    assert fit("Ancestor", *start, "--model.head=new", "--name=a").code == 0
    learngene = tmp_path / "runs/test/a/seed0/final.learngene.safetensors"
    result = lgx("init", "--source", learngene, "--method", "pretrained", "--arch", ARCH, "--out", tmp_path / "m")
    assert "normalize mean 0.3, 0.5, 0.6" in result.out, result.err


def test_a_start_that_names_no_normalization_is_reported(fit, tmp_path):
    file = tmp_path / "bare.learngene.safetensors"
    replace(Learngene.load(write_sws(str(file))), task={}).save(file)
    given = ["--model.initializer=StagewiseExpansion", f"--model.initializer.source={file}", "--model.head=new"]
    result = fit("Finetune", *given, "--name=a", f"--model.arch={BIG.replace(depth=4).spec()}")
    assert "the start (sws) does not contain its normalization" in result.out, result.err
    written = lgx("init", "--source", file, "--arch", BIG.replace(depth=4).spec(), "--out", tmp_path / "m")
    assert f"because {file} does not contain its normalization" in written.out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"mean": (0.5,)}, "give both or neither"),
        ({"mean": (123.0, 116.0, 103.0), "std": (1.0, 1.0, 1.0)}, "data.mean: expected 1 or 3 numbers in units of"),
        ({"mean": (0.5, 0.5), "std": (0.5, 0.5)}, "data.mean: expected 1 or 3 numbers"),
        ({"mean": (0.5,), "std": (0.0,)}, "data.std: expected 1 or 3 numbers"),
    ],
)
def test_a_wrong_normalization_is_refused(images, options, words):
    with pytest.raises(UserError, match=words):
        ImageFolderData(root=str(images), **options)


def test_gray_images_and_several_sets_follow_a_network(images, tmp_path):
    gray = ImageFolderData(root=str(images), in_chans=1)
    assert gray.follow_normalization((0.2, 0.4, 0.6), (0.5, 0.5, 0.5))
    assert gray.task.mean == pytest.approx((0.4,))
    several = MultiTask(("pocket_digits", "pocket_roses"), root=str(tmp_path), img_size=32)
    assert several.follow_normalization(tuple(MEAN), tuple(STD))
    assert {task.normalization for task in several.all_tasks.values()} == {(tuple(MEAN), tuple(STD))}
    assert not MultiTask(("pocket_digits",), root=str(tmp_path), mean=(0.5,), std=(0.5,)).follow_normalization(
        tuple(MEAN), tuple(STD)
    )
