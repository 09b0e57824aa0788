"""Time of a step of ``lgx fit``, compared with a bare loop over the same losses and optimizer."""

import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import pairwise
from statistics import median
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from benchmarks.steps import synchronize
from lgx.components.optim import fuse
from lgx.core.batch import Batch
from lgx.errors import UserError
from lgx.host.signals import STOP
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

    def seconds(self) -> float:
        """The median step after the first ones.

        Raises:
            UserError: If there are too few steps.
        """
        if len(self.starts) < WARM_UP + 2:
            raise UserError(f"a run of {len(self.starts)} steps is too short to be timed")
        return _median(self.starts[WARM_UP:])


def measure_fit_steps(options: Sequence[str], steps: int, repeats: int) -> list[dict[str, Any]]:
    """Measure the steps of a run.

    - ``bare_loop``: the reference: losses of the method, backward pass and optimizer, on one batch in memory.
    - ``fit_step``: a step of ``lgx fit``, with loading, logging and all callbacks; validation and checkpoints are
      between epochs and not in it.

    Each repetition trains anew and is followed by the bare loop, so that other work on the machine affects both alike.
    The seconds are the median step of the fastest repetition.

    Args:
        options: Those of ``lgx fit``, whose data are prepared.
        steps: Timed steps of each part.
        repeats: Repetitions.

    Returns:
        One row for each part: ``what``, ``seconds``, ``ratio``, ``peak_mb`` (0: not measured).

    Raises:
        UserError: As ``lgx fit``, or if the run has so few steps that none can be timed.
    """
    rounds = [_round(options, steps) for _ in range(repeats)]
    seconds = {what: min(times[what] for times in rounds) for what in rounds[0]}
    return [
        {"what": what, "seconds": value, "ratio": value / seconds["bare_loop"], "peak_mb": 0.0}
        for what, value in seconds.items()
    ]


def _round(options: Sequence[str], steps: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as held:
        cli, times = timed_run(options, folder, steps, held)
    assert times.batch is not None
    return {"bare_loop": _bare_loop(cli, times.batch, steps), "fit_step": times.seconds()}


def timed_run(options: Sequence[str], folder: str, steps: int, held: ExitStack) -> tuple[LgxCLI, StepTimes]:
    """Train for some steps after the first :data:`WARM_UP` ones, without validation and test."""
    quiet = ("enable_progress_bar=false", "enable_model_summary=false", "num_sanity_val_steps=0")
    limits = (f"max_steps={WARM_UP + steps + 1}", "max_epochs=-1", "limit_val_batches=0", "devices=1")
    trainer = [f"--trainer.{option}" for option in (*quiet, *limits)]
    own = [f"--runs_dir={folder}", "--test_start=false", "--test_end=false", *trainer]
    cli, times = LgxCLI("fit", [*options, *own], held), StepTimes()
    cli.trainer.callbacks.append(times)  # type: ignore[attr-defined]
    StepTimes.__module__ = "lgx.benchmarks"  # losses are logged in every step for callbacks of others
    with STOP.requeue_noted():  # restores the handlers of signals that the trainer sets
        cli.run()
    return cli, times


def bare_step(cli: LgxCLI, batch: Batch) -> Callable[[], None]:
    """A step of a run that has ended: losses of the method, backward pass and optimizer."""
    method = cli.model.to(batch.inputs.device).train()  # the trainer moves it to the CPU when it ends
    optimizer = method.optimizer(method.trained_groups())
    fuse(optimizer)

    def step() -> None:
        with cli.trainer.precision_plugin.train_step_context():
            loss = method.training_losses(batch)["loss"]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


def _bare_loop(cli: LgxCLI, batch: Batch, steps: int) -> float:
    step = bare_step(cli, batch)
    starts = []
    for _ in range(WARM_UP + steps + 1):
        synchronize()
        starts.append(time.perf_counter())
        step()
    return _median(starts[WARM_UP:])


def _median(starts: list[float]) -> float:
    return median(later - earlier for earlier, later in pairwise(starts))
