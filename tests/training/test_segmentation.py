"""Segmentation runs: training, resuming, starts, teachers, export."""

import re
from pathlib import Path

import pytest
import torch

from lgx.architectures import parse_architecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.export import write_descendant
from lgx.artifacts.learngene import Learngene
from lgx.components.losses import distillation_loss
from lgx.core.rows import read_rows
from tests.support import fake_masks
from tests.support.command_line import arguments, lgx, ok, refusal
from tests.support.fake_masks import SMALL


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Root with all segmentation sets, and 48 images of three shapes to classify."""
    return fake_masks.write_all(tmp_path_factory.mktemp("masks"))


def test_plain_timm_reads_an_exported_network_with_the_code_of_its_card(tmp_path, monkeypatch):
    architecture = parse_architecture(SMALL, num_classes=5, kind="segmentation")
    network = architecture.build().eval()
    torch.nn.init.normal_(network.head.weight)
    write_descendant(tmp_path / "model", network, architecture)
    card = (tmp_path / "model" / "README.md").read_text()
    assert "image-segmentation" in card
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    known = {"images": torch.randn(2, 3, 24, 24)}
    monkeypatch.chdir(tmp_path)
    exec(code, known)
    torch.testing.assert_close(known["logits"], network(known["images"]))


def command(root: Path, runs: Path, *options: object, name: str = "Finetune", verb: str = "fit") -> list[str]:
    args = arguments(verb, name, root, runs, f"--model.arch={SMALL}", "--model.scheduler=null", *options)
    kept = [
        a for a in args if not a.startswith("--data") and a != "--model.scheduler=lgx.components.optim.WarmupCosine"
    ]
    data = ["--data=ADE20K", f"--data.root={root}", "--data.img_size=24", "--data.batch_size=4"]
    return [*kept, *data, *(str(o) for o in options if str(o).startswith("--data"))]


@pytest.fixture(scope="module")
def run(root, tmp_path_factory) -> Path:
    """Run folder of an ancestor, one epoch on the fake ADE20K."""
    runs = tmp_path_factory.mktemp("segmented")
    options = ["--model.optimizer.lr=0.02", "--name=a", "--test_start=true", "--test_end=true"]
    ok(lgx(*command(root, runs, *options, name="Ancestor")))
    return runs / "test" / "a" / "seed0"


def test_an_epoch_raises_miou_and_all_metrics_are_written(run):
    rows = read_rows(run / "results.csv")
    assert [(r.split, r.epochs, r.metric, r.n) for r in rows] == [
        *(("test", 0, metric, 8) for metric in ("miou", "acc", "loss")),
        *(("val", 1, metric, 4) for metric in ("miou", "acc", "loss")),
        ("train", 1, "loss", 36),
        *(("test", 1, metric, 8) for metric in ("miou", "acc", "loss")),
    ]
    values = {(r.split, r.epochs, r.metric): r.value for r in rows}
    assert values["test", 0, "miou"] < 0.05
    assert values["test", 1, "miou"] > 0.25
    best = load_checkpoint(run / "checkpoints" / "best.ckpt")
    assert (best["lgx"]["task"]["kind"], best["lgx"]["architecture"]["kind"]) == ("segmentation",) * 2
    learngene = Learngene.load(run / "final.learngene.safetensors")
    assert learngene.architecture.kind == "segmentation"
    assert learngene.metrics["val/miou"] == pytest.approx(values["val", 1, "miou"])


def test_a_run_resumes_and_its_learngene_starts_and_teaches_others(root, run, tmp_path):
    learngene = f"{run}/final.learngene.safetensors"
    ok(lgx(*command(root, tmp_path, f"--ckpt_path={run}/checkpoints/best.ckpt", name="Ancestor", verb="test")))
    keep = ["--model.initializer=Pretrained", f"--model.initializer.source={learngene}"]
    ok(lgx(*command(root, tmp_path, *keep, "--name=kept", "--test_start=true")))
    before = [r.value for r in read_rows(run / "results.csv") if (r.split, r.epochs, r.metric) == ("test", 1, "miou")]
    rows = read_rows(tmp_path / "test/kept/seed0/results.csv")
    assert [r.value for r in rows if (r.split, r.epochs, r.metric) == ("test", 0, "miou")] == pytest.approx(before)
    other = lgx(*command(root, tmp_path, *keep, "--name=other", "--data=VOC12"))
    assert "the head has 150 classes, but the descendant has 21" in other.sentence


def test_an_augmentation_of_images_alone_is_refused(root, tmp_path):
    assert "randaugment changes images of ade20k but not their masks" in refusal(
        lgx(*command(root, tmp_path, "--data.augment=randaugment"))
    )


def test_one_network_for_both_kinds_and_predictions_are_refused(root, run, tmp_path):
    both = [a for a in command(root, tmp_path, name="Ancestor") if not a.startswith("--data")]
    both += ["--data=MultiTask", f"--data.tasks=[ade20k,{root}/shapes]", f"--data.root={root}", "--data.img_size=24"]
    assert (
        "ancestor trains one network for one kind of task, but these tasks are ade20k (segmentation, miou)"
        in refusal(lgx(*both))
    )
    assert "but segmentation has one per pixel" in refusal(
        lgx(*command(root, tmp_path, f"--ckpt_path={run}/checkpoints/best.ckpt", name="Ancestor", verb="predict"))
    )


def test_distillation_compares_the_classes_of_each_pixel():
    student, teacher = torch.randn(2, 2, 5, 3, 4)
    rows = [logits.permute(0, 2, 3, 1).reshape(-1, 5) for logits in (student, teacher)]
    torch.testing.assert_close(distillation_loss(student, teacher, 2.0), distillation_loss(*rows, 2.0))
