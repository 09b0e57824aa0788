"""Plans, and what runs count of themselves, against all that torch counts in a whole run of each method."""

import json

import pytest

from lgx.core.flops import flop_counter
from lgx.methods import registry
from lgx.methods.nested.equal_sizes import EqualSizes
from tests.planning.helpers import plan, run_folder
from tests.support.command_line import arguments, lgx, ok

LEARNGENE = "--model.ancestor={ancestor}/final.learngene.safetensors"
HYPER = [
    "--model.width=16", "--model.layers=1", "--model.heads=2", "--model.max_shape=[32,32,4,4]", "--model.set_size=9",
    '--model.panel=["depth=2,embed_dim=16,num_heads=2"]',
]  # fmt: skip
LOW_RANK = [*HYPER, "--model.rank=4", "--model.max_size=1024"]
NARROW = "depth=2,embed_dim=8,num_heads=1,patch_size=4,img_size=16"
STAGES = "--model.stages=[2,2]"
OPTIONS = {
    "Ancestor": ["--trainer.accumulate_grad_batches=2"],
    "Finetune": [
        "--model.initializer=WeightSubcloning",
        "--model.initializer.data={images}/train",
        "--model.arch=" + NARROW,
        "--model.initializer.source={ancestor}/final.learngene.safetensors",
    ],
    "Distill": [LEARNGENE],
    "SWS": [STAGES, LEARNGENE],
    "TLEG": [LEARNGENE],
    "MiniDeiT": [STAGES],
    "WAVE": [LEARNGENE, "--model.size=8"],
    "LeTs": ["--model.narrow_heads=1", "--model.narrow_depth=2"],
    "LearngenePool": [LEARNGENE],
    "LSAMD": [LEARNGENE],
    "Nested": [LEARNGENE, "--data.labels=false", "--model.least_depth=1"],
    "Family": [LEARNGENE, '--model.sizes=["depth=2","depth=1,embed_dim=8"]'],
    "Backbones": [LEARNGENE, '--model.sizes=["depth=2","depth=1,embed_dim=8"]', "--data.labels=false"],
    "GHN3": HYPER,
    "LoGAH": [*LOW_RANK, "--model.meta_batch=2"],
    "TAL": [*LOW_RANK, LEARNGENE],
}


def test_every_method_is_in_the_table():
    assert OPTIONS.keys() == registry.method_classes().keys()


@pytest.mark.parametrize("name", OPTIONS)
def test_plan_and_run_count_what_torch_counts(name, images, ancestor, tmp_path, monkeypatch):
    monkeypatch.setattr("lgx.cli._write_report", lambda *facts: "none")  # it measures latencies, as does
    monkeypatch.setattr(EqualSizes, "_duration", lambda method, steps: "")  # the announced time
    options = [option.replace("{ancestor}", str(ancestor)).replace("{images}", str(images)) for option in OPTIONS[name]]
    args = arguments(
        "fit", name, images, tmp_path / "runs", "--name=run", *options, "--trainer.limit_val_batches=0",
        "--trainer.max_epochs=3",
    )  # fmt: skip
    planned = plan(*args[1:])  # first: it measures the networks that are drawn, which are not part of the run
    with flop_counter() as counter:
        ok(lgx(*args))
    summary = json.loads((run_folder(tmp_path / "runs", "run") / "summary.json").read_text())
    training = counter.get_total_flops() - summary["start_flops"]
    if name == "Finetune":
        assert summary["start_flops"] > 0
    assert planned.steps.total == summary["steps"]
    assert planned.total_flops == pytest.approx(training, rel=0.03)
    assert summary["flops"] == pytest.approx(training, rel=0.03)
    assert summary["examples"] == planned.steps.samples
