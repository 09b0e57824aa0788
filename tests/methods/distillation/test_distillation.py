"""Distillation trains on labels and on the logits of the teacher."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from lgx.core.batch import IGNORE, Batch
from lgx.methods import Distill
from tests.support.command_line import ARCH, ok
from tests.support.runs import curves


def test_distillation_reports_its_parts(fit, ancestor, tmp_path):
    ok(fit(
        "Distill", f"--model.ancestor={ancestor}/best.learngene.safetensors", "--model.alpha=0.25", "--name=d",
        "--trainer.log_every_n_steps=1",
    ))  # fmt: skip
    found = curves(tmp_path / "runs/test/d/seed0")
    loss, labels, distilled = (
        [value for _, value in found[f"train/{name}"]] for name in ("loss", "loss_labels", "loss_distillation")
    )
    assert len(loss) == 3
    assert loss == pytest.approx([0.75 * a + 0.25 * b for a, b in zip(labels, distilled, strict=True)], rel=1e-5)
    assert "val/acc" in found


def test_labels_and_ancestor_share_the_loss(monkeypatch):
    method = Distill(arch=ARCH, optimizer=torch.optim.SGD, num_classes=3, ancestor="a", alpha=0.3, temperature=2.0)
    method.network = method.architecture.build()
    batch, answers = Batch(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 2, 0]), "t"), torch.randn(4, 3)
    method.teacher = answers
    monkeypatch.setattr(Distill, "_teacher_of", lambda self, batch: lambda images: answers)
    logits = method.network(batch.inputs)
    labels, ancestor = cross_entropy(logits, batch.targets), cross_entropy(logits / 2, (answers / 2).softmax(1))
    torch.testing.assert_close(method.training_losses(batch)["loss"], 0.7 * labels + 0.3 * ancestor)


def test_several_labels_are_distilled_label_by_label_where_they_are_known():
    method = Distill(
        arch=ARCH, optimizer=torch.optim.SGD, num_classes=3, kind="multilabel", ancestor="a", temperature=2.0
    )
    logits, answers, targets = torch.randn(2, 3), torch.randn(2, 3), torch.tensor([[0, 1, IGNORE], [1, IGNORE, 0]])
    known, share = targets != IGNORE, (answers / 2).sigmoid()
    parts = share * (logits / 2).sigmoid().log() + (1 - share) * (-logits / 2).sigmoid().log()
    torch.testing.assert_close(method.distilled(logits, answers, targets), -parts[known].mean())
