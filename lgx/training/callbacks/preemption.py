"""Save and end a run when the cluster takes its machine back."""

import os
import signal
import subprocess
from typing import Any

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint

from lgx.errors import Preempted
from lgx.host.signals import SIGNALS, STOP
from lgx.training.callbacks.checkpoints import LastCheckpoint


class Preemption(Checkpoint):
    """On SIGTERM or SIGUSR1, save ``last.ckpt`` after the current step and end the run; SIGUSR1 requeues a SLURM job.

    Lightning's handler saves at once, which may interrupt a backward pass or a collective call. This handler only sets
    a flag. After each step all processes agree whether one of them has received a signal, so that they save the same
    state and end together. The run ends before the next step, when the last one is logged. If a validation follows the
    step, the run ends after the validation: a run that resumes before it would skip it.

    Args:
        last: Saves the checkpoint; must come before this callback in the trainer's list.
    """

    def __init__(self, last: LastCheckpoint) -> None:
        self.last = last
        self._saved = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Set the handlers before workers start: SLURM signals the workers too, and they inherit the handlers."""
        if stage == "fit":
            STOP.listen(*SIGNALS)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Set the handlers again: Lightning has put one around ours that calls the other processes at once."""
        STOP.listen(*SIGNALS)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save after a whole step, if one of the processes has received a signal."""
        if self.last.may_save(trainer, batch_idx) and self._agreed(trainer):
            self.last.save(trainer)
            self._saved = True

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """End the run that was saved."""
        if self._saved:
            self._leave(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """End the run after an epoch, which is saved already, if one of its processes has received a signal."""
        if not trainer.fit_loop.done and self._agreed(trainer):
            self._leave(trainer)

    def _agreed(self, trainer: Trainer) -> bool:
        return trainer.strategy.reduce_boolean_decision(STOP.received is not None, all=False)

    def _leave(self, trainer: Trainer) -> None:
        """Requeue the job if SIGUSR1 asks for it, and end this process.

        Raises:
            Preempted: On the first process, which reports for all.
            SystemExit: On the others.
        """
        wants_requeue = trainer.strategy.reduce_boolean_decision(STOP.received == signal.SIGUSR1, all=False)
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
    """This job's identifier; None outside SLURM."""
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ.get("SLURM_JOB_ID")


def _requeue(job: str) -> str:
    """Ask SLURM to queue a job again; return the reason of a failure, or an empty text."""
    command = ["scontrol", "requeue", job]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"`{' '.join(command)}` failed ({error})"
    return f"`{' '.join(command)}` failed ({done.stderr.strip()})" if done.returncode else ""
