"""Time of a step of ``lgx fit``, compared with a bare loop over the same losses and optimizer."""

import tempfile
import time
from contextlib import ExitStack
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from benchmarks.steps import synchronize
from lgx.components.optim import fuse
from lgx.core.batch import Batch
from lgx.errors import UserError
from lgx.training.cli import LgxCLI

WARM_UP = 5
"""First steps of each part, which are not timed."""


class StepTimes(Callback):
    """Note when each training step begins, and keep the last batch.

    Attributes:
        starts: Seconds.
        batch: The last batch, on the device of the network.
    """

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.batch: Batch | None = None

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int) -> None:
        """Note the time."""
        synchronize()
        self.starts.append(time.perf_counter())
        self.batch = batch


def measure_fit_steps(config: str, steps: int, repeats: int) -> list[dict[str, Any]]:
    """Measure the steps of a configuration.

    - ``bare_loop``: the reference: losses of the method, backward pass and optimizer, on one batch in memory.
    - ``fit_step``: a step of ``lgx fit``, with loading, logging and all callbacks; validation and checkpoints are
      between epochs and not in it.

    Each repetition trains anew and is followed by the bare loop, so that other work on the machine affects both alike.
    The seconds are the median step of the fastest repetition.

    Args:
        config: File of a configuration of ``lgx fit`` whose data are prepared.
        steps: Timed steps of each part.
        repeats: Repetitions.

    Returns:
        One row for each part: ``what``, ``seconds``, ``ratio``, ``peak_mb`` (0: not measured).

    Raises:
        UserError: As ``lgx fit``, or if an epoch has so few steps that none can be timed.
    """
    rounds = [_round(config, steps) for _ in range(repeats)]
    seconds = {what: min(times[what] for times in rounds) for what in rounds[0]}
    return [
        {"what": what, "seconds": value, "ratio": value / seconds["bare_loop"], "peak_mb": 0.0}
        for what, value in seconds.items()
    ]


def _round(config: str, steps: int) -> dict[str, float]:
    times = StepTimes()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        cli = LgxCLI("fit", _arguments(config, folder, WARM_UP + steps + 1), held)
        cli.trainer.callbacks.append(times)  # type: ignore[attr-defined]
        cli.run()
    if times.batch is None or len(times.starts) < WARM_UP + 2:
        raise UserError(f"config {config}: its run has {len(times.starts)} steps, too few to be timed")
    return {"bare_loop": _bare_loop(cli, times.batch, steps), "fit_step": _median(times.starts[WARM_UP:])}


def _arguments(config: str, folder: str, steps: int) -> list[str]:
    if not Path(config).is_file():
        raise UserError(f"config {config}: no such file; give a configuration of lgx fit")
    quiet = ("enable_progress_bar=false", "enable_model_summary=false", "num_sanity_val_steps=0")
    limits = (f"max_steps={steps}", "max_epochs=-1", "limit_val_batches=0", "devices=1")
    options = [f"--trainer.{option}" for option in (*quiet, *limits)]
    return ["--config", config, "--runs_dir", folder, "--test_start=false", "--test_end=false", *options]


def _bare_loop(cli: LgxCLI, batch: Batch, steps: int) -> float:
    method = cli.model.to(batch.inputs.device).train()  # the trainer moves it to the CPU when it ends
    optimizer = method.optimizer(method.trained_groups())
    fuse(optimizer)
    starts = []
    for _ in range(WARM_UP + steps + 1):
        synchronize()
        starts.append(time.perf_counter())
        with cli.trainer.precision_plugin.train_step_context():
            loss = method.training_losses(batch)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return _median(starts[WARM_UP:])


def _median(starts: list[float]) -> float:
    return median(later - earlier for earlier, later in pairwise(starts))
