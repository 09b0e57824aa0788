"""Each option of the trainer and each stock callback works, or is refused in one sentence before training."""

import inspect
import os
import re
import shlex
from functools import cache
from unittest.mock import patch

import numpy as np
import pytest
from lightning.pytorch import Trainer, callbacks
from PIL import Image
from torch import distributed

from lgx.core.rows import read_rows
from tests.support.command_line import free_port, lgx, ok
from tests.support.paths import ROOT

VALUES: dict[str, list[object]] = {
    "accelerator": ["gpu", "tpu", "foo"], "accumulate_grad_batches": [0, -1, 2, 7], "barebones": ["true"],
    "benchmark": ["true"], "check_val_every_n_epoch": [0, 2, "null"], "default_root_dir": ["elsewhere"],
    "deterministic": ["true", "warn"], "detect_anomaly": ["true"], "devices": [0, "auto"],
    "enable_autolog_hparams": ["false"], "enable_checkpointing": ["false"], "enable_model_summary": ["true"],
    "enable_progress_bar": ["true"], "fast_dev_run": ["true", 2, 0], "gradient_clip_algorithm": ["value", "foo"],
    "gradient_clip_val": [0, 1, -1], "inference_mode": ["false"], "limit_predict_batches": [1],
    "limit_test_batches": [0, 1], "limit_train_batches": [0, 1, 0.5, 2.0, -1], "limit_val_batches": [0, 1, 0.5],
    "log_every_n_steps": [0, 1, -1], "logger": ["false", "CSVLogger"], "max_epochs": [0, 1], "max_steps": [0, 2, -2],
    "max_time": ["00:00:00:01", 1], "min_epochs": [5], "min_steps": [3], "model_registry": ["x"], "num_nodes": [0],
    "num_sanity_val_steps": [2, -1], "overfit_batches": [1, 0.5], "plugins": ["[]"],
    "precision": ["16-true", "64", "foo"],
    "profiler": ["simple", "foo"], "reload_dataloaders_every_n_epochs": [1, -1],
    "strategy": ["fsdp", "deepspeed", "foo", "sharded", "ddp_notebook", "ddp_spawn"], "sync_batchnorm": ["true"],
    "use_distributed_sampler": ["true"], "val_check_interval": [100, 0.5, 2, 0, 1.5],
}  # fmt: skip
CALLBACKS = [name for name in callbacks.__all__ if name not in ("Callback", "Checkpoint")]
CASES = {f"{name}={value}": f"--trainer.{name}={value}" for name, values in VALUES.items() for value in values}
CASES |= {name: f"--trainer.callbacks+={name}" for name in CALLBACKS}
REFUSED = (
    "accumulate_grad_batches=0", "val_check_interval=0", "val_check_interval=100", "LearningRateFinder",
    "BackboneFinetuning", "GradientAccumulationScheduler", "strategy=ddp_notebook", "strategy=ddp_spawn",
)  # fmt: skip


def test_the_table_has_every_option():
    options = inspect.signature(Trainer.__init__).parameters.keys() - {"self", "callbacks"}
    assert VALUES.keys() == options


SOME = [case if case in REFUSED else pytest.param(case, marks=pytest.mark.slow) for case in CASES]


@pytest.mark.parametrize("case", SOME)
def test_an_option_works_or_is_refused_in_one_sentence(fit, monkeypatch, tmp_path, case):
    monkeypatch.chdir(tmp_path)
    with patch.dict(os.environ, MASTER_PORT=str(free_port())):  # what Lightning sets does not stay for later tests
        done = fit("Ancestor", "--name=o", "--test_end", CASES[case])  # a traceback fails the test
    if distributed.is_initialized():
        distributed.destroy_process_group()
    assert done.code in ((2,) if case in REFUSED else (0, 2)), done.err
    assert case not in REFUSED or "trainer" in done.sentence


ARCH = "depth=2,embed_dim=16,num_heads=2,patch_size=4,img_size=8"
COLORS = np.array(((60, 60, 170), (60, 170, 60), (170, 60, 60)))


def recommended():
    """The options in the table of own-images.md, and the averages of training.md."""
    table = (ROOT / "docs/tutorials/own-images.md").read_text().partition("| option | when |")[2].partition("\n\n")[0]
    options = [option for row in table.splitlines() for option in re.findall(r"`(--[^`]+)`", row.partition(" | ")[0])]
    options += re.findall(r"(--trainer\.callbacks\+=\w+Averaging.*)", (ROOT / "docs/training.md").read_text())
    options = [option for option in options if "value_range" not in option]  # images of 8 bits refuse it
    assert len(options) > 8
    return options


def write_colors(root, colors, **splits):
    rng = np.random.default_rng(0)
    for split, sizes in splits.items():
        for label, k in [(label, k) for label, size in enumerate(sizes) for k in range(size)]:
            file = root / split / "abc"[label] / f"patient{k % 40}_{k:03d}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            pixels = rng.normal(colors[label], 20, (8, 8, 3)).clip(0, 255)
            Image.fromarray(pixels.astype(np.uint8)).save(file)
    return root


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """Balanced test accuracy of the recipe for own images, from a trained start, with further options."""
    root = tmp_path_factory.mktemp("easy")
    images = write_colors(root / "images", COLORS, train=(300, 300, 8), test=(30, 30, 30))
    others = write_colors(root / "others", 230 - COLORS, train=(40, 40, 40))

    def fit(name: str, *options: str) -> None:
        command = ["fit", f"--config={ROOT}/lgx/configs/own_images.yaml", f"--runs_dir={root}/runs", f"--name={name}"]
        command += [f"--model.arch={ARCH}", "--data.img_size=8", "--data.batch_size=64", "--model.optimizer.lr=0.003"]
        ok(lgx(*command, "--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", *options))

    fit("start", "--model.initializer=RandomStart", f"--data.root={others}")

    @cache
    def run(option: str) -> float:
        name = "r" + re.sub(r"\W+", "_", option)
        start = f"--model.initializer.source={root}/runs/mine/start/seed0/checkpoints/last.ckpt"
        fit(name, start, "--model.head=new", f"--data.root={images}", "--test_end=true", *shlex.split(option))
        rows = read_rows(root / f"runs/mine/{name}/seed0/results.csv")
        return next(row.value for row in rows if (row.split, row.metric) == ("test", "balanced_acc"))

    return run


@pytest.mark.slow
@pytest.mark.parametrize("option", recommended())
def test_a_recommended_option_makes_an_easy_run_no_worse(train, option):
    assert train(option) >= train("") - 0.02
