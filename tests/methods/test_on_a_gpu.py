"""Whole runs of every method on a double of a GPU: what mixes two devices or waits for the GPU fails."""

import pytest
import torch

from lgx.architectures import parse_architecture
from lgx.artifacts.learngene import Learngene
from lgx.methods.registry import specs
from tests.support.command_line import ARCH, lgx, ok
from tests.support.gpu_double import gpu_double

TEACHER = "--model.ancestor={ancestor}"
HYPER = [
    "--model.width=16", "--model.layers=1", "--model.heads=2", '--model.panel=["depth=1,embed_dim=16,num_heads=2"]',
    "--model.max_shape=[64,64,4,4]", "--model.set_size=2",
]  # fmt: skip
LOW_RANK = [*HYPER, "--model.rank=4", "--model.max_size=512"]
OPTIONS = {
    "Ancestor": [],
    "Backbones": [TEACHER, "--data.labels=false", "--model.sizes=[depth=2]"],
    "Distill": [TEACHER],
    "Family": [TEACHER, "--model.sizes=[depth=2]"],
    "Finetune": [],
    "GHN3": HYPER,
    "LSAMD": [TEACHER, "--model.random_paths=0"],
    "LearngenePool": [TEACHER],
    "LeTs": [TEACHER, "--model.narrow_depth=2", "--model.narrow_heads=1"],
    "LoGAH": LOW_RANK,
    "MiniDeiT": ["--model.stages=[2,2]"],
    "Nested": [TEACHER, "--data.labels=false", "--model.least_depth=1"],
    "SWS": ["--model.stages=[2,2]", "--model.start=middle", TEACHER],
    "TAL": [*LOW_RANK, TEACHER],
    "TLEG": ["--model.start=fit", TEACHER],
    "WAVE": ["--model.size=8", "--model.number=2"],
}
WAITS = {"LSAMD": {"super_ancestor.py:_majority"}}  # the preference of the batch decides which block of a layer runs
"""Method -> functions in which a step may wait for the GPU; in all others it must not."""
PREDICTIONS = ("Ancestor", "Family", "LSAMD")
"""Methods that predict in their own way, and one of the others."""
FAST = ("Family", "LSAMD", "TAL")
SHORT = [
    "--trainer.accelerator=gpu", "--trainer.limit_train_batches=3", "--trainer.limit_val_batches=1",
    "--trainer.limit_test_batches=1", "--trainer.log_every_n_steps=50", "--trainer.inference_mode=false", "--name=a",
]  # fmt: skip


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Learngene file of an untrained network."""
    path = tmp_path_factory.mktemp("gpu") / "ancestor.learngene.safetensors"
    architecture = parse_architecture(ARCH, num_classes=3)
    task = {"name": "shapes", "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.2, 0.2]}
    Learngene("ancestor", architecture, dict(architecture.build().state_dict()), task=task).save(path)
    return str(path)


def test_every_method_that_trains_is_tried():
    assert {spec.module.rpartition(":")[2] for spec in specs().values() if spec.module} <= {*OPTIONS}


@pytest.mark.parametrize(
    "method", [pytest.param(name, marks=[] if name in FAST else pytest.mark.slow) for name in OPTIONS]
)
def test_a_run_uses_one_device_and_does_not_wait_for_it(method, fit, file, tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_DEBUG", "1")
    options = [file.join(option.split("{ancestor}")) for option in OPTIONS[method]]
    with gpu_double(monkeypatch) as waits:
        ok(fit(method, *options, *SHORT, "--trainer.precision=bf16-mixed", "--test_end=true"))
        if method in PREDICTIONS:
            config = tmp_path / "runs/test/a/seed0/config.yaml"
            ok(lgx("predict", "--config", config, "--trainer.precision=32-true"))
    assert {*waits} == WAITS.get(method, set())


def test_mixed_devices_and_waits_are_found(monkeypatch):
    with gpu_double(monkeypatch):
        there = torch.ones(2, device="cuda")
        assert (there * torch.tensor(2.0)).device.type == "cuda"
        with pytest.raises(RuntimeError, match="two devices"):
            there + torch.ones(2)


@pytest.mark.parametrize(
    "command",
    [
        ["embed", "--ancestor", "{file}", "--data", "{images}", "--out", "{out}/e.safetensors"],
        ["init", "--source", "{file}", "--latency", "900ms", "--out", "{out}/start"],
        ["predict", "{images}/test", "--model", "{file}", "--out", "{out}/p.csv"],
        ["export", "{file}", "--out", "{out}/x"],
    ],
    ids=lambda command: command[0],
)
def test_commands_work_beside_a_gpu(command, file, images, tmp_path, monkeypatch):
    monkeypatch.setenv("LGX_DEBUG", "1")
    with gpu_double(monkeypatch):
        ok(lgx(*(part.format(file=file, images=images, out=tmp_path) for part in command)))
