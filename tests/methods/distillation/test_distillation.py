"""Distillation trains on labels and on the logits of the teacher."""

import pytest

from tests.support.runs import curves


def test_distillation_reports_its_parts(fit, ancestor, tmp_path):
    result = fit(
        "Distill", f"--model.ancestor={ancestor}/best.learngene.safetensors", "--model.alpha=0.25", "--name=d",
        "--trainer.log_every_n_steps=1",
    )  # fmt: skip
    assert result.code == 0, result.err
    found = curves(tmp_path / "runs/test/d/seed0")
    loss, labels, distilled = (
        [value for _, value in found[f"train/{name}"]] for name in ("loss", "loss_labels", "loss_distillation")
    )
    assert len(loss) == 3
    assert loss == pytest.approx([0.75 * a + 0.25 * b for a, b in zip(labels, distilled, strict=True)], rel=1e-5)
    assert "val/acc" in found
