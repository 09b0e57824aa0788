"""How many steps a run takes, and when its learning rate schedule ends."""

import contextlib

import pytest
import torch
from torch.optim import lr_scheduler

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.components.optim import make_scheduler
from lgx.errors import UserError
from lgx.training.configuration import instantiate, make_parser, parse_configuration
from tests.support.command_line import arguments, ok


def test_the_schedule_covers_the_limited_batches_and_ends_with_whichever_limit_comes_first(fit, tmp_path):
    options = ["--name=l", "--data.batch_size=4", "--trainer.limit_train_batches=0.5", "--trainer.max_epochs=2"]
    result = fit("Ancestor", *options)
    assert "steps      12" in result.out
    checkpoint = load_checkpoint(tmp_path / "runs/test/l/seed0/checkpoints/last.ckpt")
    assert checkpoint["global_step"] == 12
    assert checkpoint["lr_schedulers"][0]["_last_lr"] == pytest.approx([0, 0], abs=1e-9)
    assert "steps      3," in fit("Ancestor", "--name=s", "--trainer.max_steps=1000").out
    result = fit("Ancestor", "--name=t", "--trainer.max_steps=2", "--trainer.max_epochs=9")
    assert "steps      2," in result.out
    # Without a validation there is no best checkpoint.
    assert fit("Ancestor", "--name=t", command="test").code == 0


def test_an_endless_run_is_refused_only_with_a_schedule(fit):
    endless = ["--trainer.max_epochs=-1", "--trainer.max_time=00:00:00:01"]
    assert "a schedule needs the length" in fit("Ancestor", "--name=e", *endless).sentence
    assert "until stopped" in ok(fit("Ancestor", "--name=f", "--model.scheduler=null", *endless)).out


STEPS = 8
SCHEDULES = [
    ("StepLR", {"step_size": 3, "gamma": 0.1}, {}),
    ("MultiStepLR", {"milestones": [2, 5]}, {}),
    ("ExponentialLR", {"gamma": 0.9}, {}),
    ("ConstantLR", {"factor": 0.5, "total_iters": 3}, {}),
    ("LinearLR", {"total_iters": 4}, {}),
    ("PolynomialLR", {"power": 2.0}, {"total_iters": STEPS}),
    ("PolynomialLR", {"total_iters": 3}, {}),
    ("CosineAnnealingLR", {"eta_min": 0.01}, {"T_max": STEPS}),
    ("CosineAnnealingLR", {"T_max": 3}, {}),
    ("CosineAnnealingWarmRestarts", {"T_0": 3}, {}),
    ("OneCycleLR", {"max_lr": 0.5}, {"total_steps": STEPS}),
    ("CyclicLR", {"base_lr": 0.1, "max_lr": 0.5, "step_size_up": 2}, {}),
]
"""torch's scheduler, the options of a run, and what the run adds: its own length."""


def rates_of(make):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.2, momentum=0.9)
    scheduler, rates = make(optimizer), []
    for _ in range(STEPS):
        rates.append((optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["momentum"]))
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(("name", "options", "added"), SCHEDULES)
def test_a_scheduler_of_torch_is_that_of_torch(images, tmp_path, name, options, added):
    words = [f"--model.scheduler.{key}={value}" for key, value in options.items()]
    parser = make_parser("fit")
    argv = arguments("fit", "Ancestor", images, tmp_path, f"--model.scheduler={name}", *words)[1:]
    config = parse_configuration(parser, argv)
    (tmp_path / "saved.yaml").write_text(parser.dump(config))
    for given in (config, parse_configuration(parser, ["--config", str(tmp_path / "saved.yaml")])):
        own = instantiate(parser, given).model.scheduler
        wanted = rates_of(lambda optimizer: getattr(lr_scheduler, name)(optimizer, **options, **added))
        assert rates_of(lambda optimizer, own=own: make_scheduler(own, optimizer, STEPS)) == wanted
    two = torch.optim.SGD([{"params": [torch.zeros(1)], "lr": rate} for rate in (0.1, 0.2)])
    with pytest.raises(UserError, match="sets one rate") if "max_lr" in options else contextlib.nullcontext():
        make_scheduler(own, two, STEPS)


SAME = (pytest.param(name, marks=pytest.mark.slow) for name in ("CosineAnnealingLR", "PolynomialLR"))


@pytest.mark.parametrize("name", ["OneCycleLR --model.scheduler.max_lr=0.1", *SAME])
def test_a_schedule_of_the_length_of_the_run_is_not_resumed_in_a_longer_run(fit, name):
    run = [*f"--model.scheduler={name}".split(), "--name=l", "--trainer.max_epochs=2"]
    assert fit("Ancestor", *run, "--trainer.limit_val_batches=0").code == 0
    longer = fit("Ancestor", *run[:-1], "--trainer.max_epochs=3", "--trainer.limit_val_batches=0", "--ckpt_path=last")
    assert (longer.code, "was planned for 6 updates" in longer.sentence) == (2, True), longer.err
