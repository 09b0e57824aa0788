"""Averages of weights: how their decay grows, what they are before they begin, and runs that they cannot end."""

import pytest
import torch
from lightning.pytorch.callbacks import EMAWeightAveraging
from torch import nn
from torch.optim.swa_utils import AveragedModel

from lgx.core.rows import read_rows
from lgx.training.lightning_internals import warm_up_average
from tests.support.command_line import refusal
from tests.support.runs import last_checkpoint

EMA = ["--trainer.callbacks+=EMAWeightAveraging", "--trainer.callbacks.use_buffers=false"]
SWA = ["--trainer.callbacks+=StochasticWeightAveraging", "--trainer.callbacks.swa_lrs=0.01"]


def test_the_decay_of_an_average_grows_with_its_steps():
    callback, network = EMAWeightAveraging(decay=0.5), nn.Linear(1, 1)
    warm_up_average(callback)
    average, expected = AveragedModel(network, **callback._kwargs), 0.0
    for step in range(20):
        with torch.no_grad():
            network.weight.fill_(float(step))
        average.update_parameters(network)
        decay = min(0.5, (1 + step) / (10 + step)) if step else 0.0
        expected = decay * expected + (1 - decay) * step
    assert float(average.module.weight) == pytest.approx(expected)


def test_an_average_that_has_not_begun_is_the_weights(fit, tmp_path):
    late = [*EMA, "--trainer.callbacks.update_starting_at_step=5", "--trainer.max_epochs=2"]
    assert fit("Ancestor", "--name=e", *late).code == 0
    assert fit("Ancestor", "--name=p", "--trainer.max_epochs=2").code == 0
    runs = [tmp_path / "runs/test" / name / "seed0" for name in "ep"]
    first = [{r.metric: r.value for r in read_rows(run / "results.csv") if r.epochs == 1} for run in runs]
    assert first[0] == first[1]  # validation after three steps, before the first update
    averaged, plain = map(last_checkpoint, runs)
    assert all(torch.equal(value, plain["state_dict"][name]) for name, value in averaged["state_dict"].items())


@pytest.mark.parametrize(
    "options",
    [
        [*EMA, "--trainer.callbacks.update_starting_at_step=3"],
        [*EMA, "--trainer.callbacks.update_starting_at_epoch=1", "--trainer.callbacks.update_every_n_steps=0"],
        [*SWA, "--trainer.callbacks.swa_epoch_start=3"],
        [*SWA, "--trainer.max_steps=2"],
        [*SWA, "--early_stop=1"],
    ],
)
def test_an_average_that_the_run_would_not_have_is_refused(fit, options):
    assert "Averaging" in refusal(fit("Ancestor", "--name=a", *options))
