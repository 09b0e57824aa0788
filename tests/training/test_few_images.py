"""Training on few or uneven images: weights, a balanced order, no held-out part, a frozen backbone."""

import pytest
import torch
import torch.nn.functional as F

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.components.class_weights import balanced_weights
from lgx.core.rows import read_rows
from lgx.methods.baselines.finetune import Finetune
from tests.support.command_line import ARCH
from tests.support.images import CLASSES, write_images


@pytest.fixture(scope="module")
def uneven(tmp_path_factory):
    """Class folders of 24, 12 and 6 training images, without ``val``."""
    root = tmp_path_factory.mktemp("uneven") / "shapes"
    write_images(root, {"train": 72, "test": 12})
    for name, kept in zip(CLASSES, (24, 12, 6), strict=True):
        for path in sorted((root / "train" / name).iterdir())[kept:]:
            path.unlink()
    return root


def test_all_images_are_trained_on_without_a_held_out_part(fit, uneven, tmp_path):
    options = ["--data.val_fraction=0", "--data.batch_size=7", "--test_end=true", "--name=all"]
    result = fit("Ancestor", f"--data.root={uneven}", *options)
    assert result.code == 0, result.err
    rows = read_rows(tmp_path / "runs/test/all/seed0/results.csv")
    assert {row.n for row in rows if row.split == "train"} == {42}
    assert {row.split for row in rows} == {"train", "test"}
    assert fit("Ancestor", f"--data.root={uneven}", *options, "--ckpt_path=last", "--trainer.max_epochs=3").code == 0


def test_the_loss_of_an_example_is_weighted_by_the_frequency_of_its_class():
    torch.manual_seed(0)
    method = Finetune(arch=ARCH, optimizer=torch.optim.AdamW, class_weights=True, label_smoothing=0.1)
    method.class_weights = torch.tensor([42 / (3 * n) for n in (24, 12, 6)])
    logits, targets = torch.randn(9, 3), torch.tensor([0, 0, 0, 0, 1, 1, 1, 2, 2])
    each = F.cross_entropy(logits, targets, reduction="none", label_smoothing=0.1)
    wanted = method.class_weights[targets] * each
    assert method.label_loss(logits, targets) == pytest.approx(float(wanted.mean()), rel=1e-5)
    mixed = 0.7 * F.one_hot(targets, 3) + 0.3 * F.one_hot(targets.flip(0), 3)
    others = method.class_weights[targets.flip(0)] * F.cross_entropy(
        logits, targets.flip(0), reduction="none", label_smoothing=0.1
    )
    assert method.label_loss(logits, mixed) == pytest.approx(float((0.7 * wanted + 0.3 * others).mean()), rel=1e-5)


@pytest.mark.parametrize("option", ["--model.class_weights=true", "--data.balanced=true"])
def test_both_ways_train_resume_and_follow_balanced_accuracy(fit, uneven, tmp_path, option):
    options = [
        f"--data.root={uneven}",
        "--data.val_fraction=0.3",
        "--data.batch_size=7",
        "--name=u",
        option,
        "--early_stop=5",
    ]
    result = fit("Finetune", *options, "--trainer.max_epochs=1")
    assert result.code == 0, result.err
    assert fit("Finetune", *options, "--trainer.max_epochs=2", "--ckpt_path=last").code == 0
    run = tmp_path / "runs/test/u/seed0"
    callbacks = load_checkpoint(run / "checkpoints/last.ckpt")["callbacks"]
    best = next(state for name, state in callbacks.items() if name.startswith("BestCheckpoint"))
    watched = [r.value for r in read_rows(run / "results.csv") if (r.split, r.metric) == ("val", "balanced_acc")]
    assert float(best["best_model_score"]) == pytest.approx(max(watched))
    assert next(state for name, state in callbacks.items() if name.startswith("EarlyStopping"))["best_score"] == max(
        watched
    )


def test_a_class_without_images_has_no_weight():
    assert balanced_weights([20, 0, 10]).tolist() == [30 / 40, 0, 30 / 20]


def test_a_run_with_class_weights_is_planned(fit, uneven):
    result = fit("Finetune", f"--data.root={uneven}", "--model.class_weights=true", command="plan")
    assert result.code == 0, result.err


def test_weights_are_those_of_the_training_images(fit, uneven, monkeypatch):
    seen = []
    monkeypatch.setattr(Finetune, "on_train_start", lambda self: seen.append(self.class_weights))
    result = fit("Finetune", f"--data.root={uneven}", "--data.val_fraction=0", "--model.class_weights=true")
    assert result.code == 0, result.err
    assert seen[0].tolist() == pytest.approx([42 / (3 * n) for n in (24, 12, 6)])


def test_a_frozen_backbone_keeps_its_start_while_the_head_learns(fit, ancestor, tmp_path):
    start = load_checkpoint(ancestor / "checkpoints/best.ckpt")["state_dict"]
    options = ["--model.initializer=Pretrained", f"--model.initializer.source={ancestor}/best.learngene.safetensors"]
    options += ["--model.head=new", "--model.freeze_epochs=1", "--name=f"]
    assert fit("Finetune", *options, "--trainer.max_epochs=1").code == 0
    place = tmp_path / "runs/test/f/seed0/checkpoints/last.ckpt"
    frozen = load_checkpoint(place)["state_dict"]
    assert all(torch.equal(frozen[name], start[name]) == (not name.startswith("network.head")) for name in start)
    assert fit("Finetune", *options, "--trainer.max_epochs=2", "--ckpt_path=last").code == 0
    trained = load_checkpoint(place)["state_dict"]
    assert not any(torch.equal(trained[name], start[name]) for name in start)
