"""Plans, and what runs count of themselves, against all that torch counts in a whole run of each method."""

import json

import pytest

from lgx.core.flops import flop_counter
from lgx.methods.nested.equal_sizes import EqualSizes
from tests.methods.test_on_a_gpu import OPTIONS, TEACHER
from tests.planning.helpers import plan, run_folder
from tests.support.command_line import arguments, lgx, ok

SET = "--model.set_size=9"
SIZES = '--model.sizes=["depth=2","depth=1,embed_dim=8"]'
NARROW = "depth=2,embed_dim=8,num_heads=1,patch_size=4,img_size=16"
MORE = {
    "Ancestor": ["--trainer.accumulate_grad_batches=2"],
    "Finetune": [
        "--model.initializer=WeightSubcloning",
        "--model.initializer.data={images}/train",
        "--model.arch=" + NARROW,
        "--model.initializer.source={ancestor}",
    ],
    "WAVE": [TEACHER],
    "LSAMD": ["--model.random_paths=0.5"],
    "Family": [SIZES],
    "Backbones": [SIZES],
    "GHN3": [SET],
    "LoGAH": [SET, "--model.meta_batch=2"],
    "TAL": [SET],
}
"""What is tried here beside the options of a run of each method."""
DRAWN = ("LearngenePool", "LSAMD", "Nested", "Family", "Backbones", "GHN3", "LoGAH", "TAL")
"""Methods whose steps differ: several epochs come near the mean."""


@pytest.mark.parametrize("name", OPTIONS)
def test_plan_and_run_count_what_torch_counts(name, images, ancestor, tmp_path, monkeypatch):
    monkeypatch.setattr("lgx.cli._write_report", lambda *facts: "none")  # it measures latencies, as does
    monkeypatch.setattr(EqualSizes, "_duration", lambda method, steps: "")  # the announced time
    teacher = f"{ancestor}/final.learngene.safetensors"
    given = [*OPTIONS[name], *MORE.get(name, [])]
    options = [option.replace("{ancestor}", teacher).replace("{images}", str(images)) for option in given]
    args = arguments(
        "fit", name, images, tmp_path / "runs", "--name=run", *options, "--trainer.limit_val_batches=0",
        f"--trainer.max_epochs={3 if name in DRAWN else 1}",
    )  # fmt: skip
    planned = plan(*args[1:])  # first: it measures the networks that are drawn, which are not part of the run
    with flop_counter() as counter:
        ok(lgx(*args))
    summary = json.loads((run_folder(tmp_path / "runs", "run") / "summary.json").read_text())
    training = counter.get_total_flops() - summary["start_flops"]
    if name == "Finetune":
        assert summary["start_flops"] > 0
    assert any("training ends" in note for note in planned.notes) == (name == "Family")
    assert planned.steps.total == summary["steps"]
    assert planned.total_flops == pytest.approx(training, rel=0.03)
    assert summary["flops"] == pytest.approx(training, rel=0.03)
    assert summary["examples"] == planned.steps.samples
