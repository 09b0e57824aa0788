"""Going quietly when the cluster wants its machine back."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from lgx.errors import Preempted
from lgx.training.callbacks.last_checkpoint import LastCheckpoint

SIGNALS = (signal.SIGTERM, signal.SIGUSR1)


@contextmanager
def signals_restored() -> Iterator[None]:
    """Give the signals back the handlers that they had; Lightning, too, changes them for a run."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Preemption(Checkpoint):
    """On SIGTERM or SIGUSR1, save ``last.ckpt`` after the step in hand and end the run; SIGUSR1 requeues a SLURM job.

    A handler that saves by itself, as Lightning's does, interrupts a backward pass or a collective call wherever it
    stands. Ours sets a flag; all processes agree on it after a step, whichever of them was told, so that they save the
    same state and leave together. A step that validation follows is not saved, since a run that is resumed from there
    would skip the validation; the run then ends after it.

    Args:
        last: What saves the checkpoint; stands before this callback.
    """

    def __init__(self, last: LastCheckpoint) -> None:
        self.last = last
        self.received: int | None = None

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Listen before workers are started: SLURM signals them too, and they inherit the handlers."""
        if stage == "fit":
            self._listen()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Listen again: Lightning puts a handler around ours that would call the other processes at once."""
        self._listen()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """End the run if one of its processes was told to, and a whole step is done."""
        if self.last.may_save(trainer, batch_idx) and self._agreed(trainer):
            self.last.save(trainer)
            self._leave(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The same after an epoch, which has been saved."""
        if not trainer.fit_loop.done and self._agreed(trainer):
            self._leave(trainer)

    def _listen(self) -> None:
        for number in SIGNALS:
            signal.signal(number, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.received = self.received or number

    def _agreed(self, trainer: Trainer) -> bool:
        return trainer.strategy.reduce_boolean_decision(self.received is not None, all=False)

    def _leave(self, trainer: Trainer) -> None:
        """Requeue where asked and possible.

        Raises:
            Preempted: On the first process, which speaks for all.
            SystemExit: On the others.
        """
        wants_requeue = trainer.strategy.reduce_boolean_decision(self.received == signal.SIGUSR1, all=False)
        if not trainer.is_global_zero:
            raise SystemExit(0)
        name = "SIGUSR1" if wants_requeue else "SIGTERM"
        code, then = 128 + int(getattr(signal, name)), "the run resumes with --ckpt_path last"
        if wants_requeue and (job := _slurm_job()):
            refused = _requeue(job)
            code = code if refused else 0
            then = f"{refused}; submit the job again, {then}" if refused else f"job {job} is requeued"
        raise Preempted(f"{name}: saved {self.last.path}; {then}", code)


def _slurm_job() -> str | None:
    """This job's number; None outside SLURM."""
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ.get("SLURM_JOB_ID")


def _requeue(job: str) -> str:
    """Ask SLURM to queue a job again; returns why it did not, or nothing."""
    command = ["scontrol", "requeue", job]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"`{' '.join(command)}` failed ({error})"
    return f"`{' '.join(command)}` failed ({done.stderr.strip()})" if done.returncode else ""
