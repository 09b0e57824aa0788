"""Each option of the trainer and each stock callback works, or is refused in one sentence before training."""

import inspect
import os
import re
import shlex
from unittest.mock import patch

import pytest
from lightning.pytorch import Trainer, callbacks
from torch import distributed

from lgx.training.configuration import make_parser, parse_configuration
from tests.support.command_line import free_port
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


def recommended():
    """The options in the table of own-images.md, and the average of training.md."""
    table = (ROOT / "docs/tutorials/own-images.md").read_text().partition("| option | when |")[2].partition("\n\n")[0]
    options = [option for row in table.splitlines() for option in re.findall(r"`(--[^`]+)`", row.partition(" | ")[0])]
    options += re.findall(r"(--trainer\.callbacks\+=EMAWeightAveraging)", (ROOT / "docs/training.md").read_text())
    assert len(options) > 8
    return options


def test_recommended_options_are_options_of_the_recipe(tmp_path):
    recipe = [f"--config={ROOT}/lgx/configs/own_images.yaml", f"--runs_dir={tmp_path}"]
    for option in recommended():
        parse_configuration(make_parser("fit"), [*recipe, *shlex.split(option)])
