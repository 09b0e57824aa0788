"""Write checkpoints in one step, and continue from them.

- ``AtomicCheckpointIO`` writes and reads all of them.
- ``LastCheckpoint`` saves what a run resumes from, ``Preemption`` does so after a signal and ends the run.
- ``FinalWeights`` and ``Resume`` complete what Lightning restores.
"""

import os
import signal
import subprocess
from pathlib import Path
from typing import Any, cast

import torch
from lightning.fabric.plugins import TorchCheckpointIO
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import Checkpoint, WeightAveraging
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from lgx.artifacts.checkpoints import FINAL, LAST, load_checkpoint
from lgx.components.optim import check_length
from lgx.core.rows import keep_rows
from lgx.errors import Preempted, UserError
from lgx.host.failures import write_errors
from lgx.host.files import atomic_path
from lgx.host.signals import REQUEUE, STOP, STOPS
from lgx.methods.base import Method
from lgx.training.lightning_internals import callbacks_of
from lgx.training.run_folder import run_folder


class AtomicCheckpointIO(TorchCheckpointIO):
    """Write a checkpoint beside its target and rename it.

    Lightning writes it to the system's temporary folder and moves it. Between two file systems the move is a copy,
    and a kill during the copy leaves half a file.

    Attributes:
        is_restoring: Whether a checkpoint is being restored; ``Resume`` sets it to False at the end.
    """

    is_restoring = False

    def load_checkpoint(
        self, path: Any, map_location: Any = lambda storage, _: storage, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Load tensors and plain types only, also against environment variables: other types could run code."""
        loaded: dict[str, Any] = super().load_checkpoint(path, map_location, weights_only=True)
        self.is_restoring = True
        return loaded

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Save a checkpoint."""
        with atomic_path(path) as temporary, write_errors(path, RuntimeError):  # of torch's zip writer
            torch.save(checkpoint, temporary)


class LastCheckpoint(Checkpoint):
    """Save ``last.ckpt`` after every epoch, and every ``every`` steps.

    Lightning's ``save_last`` saves only when the best checkpoint changes. A run without a better score would lose
    epochs.

    Callbacks that average weights put the average into the network when training ends. Then ``final.ckpt`` keeps these
    weights. The checkpoint of the last epoch gets its name after that. So a finished ``last.ckpt`` always has its final
    weights, even if the run is killed. Weights that a method finishes are saved by :class:`FinalWeights`.

    Args:
        folder: The run's folder of checkpoints.
        every: Optimizer steps between checkpoints within an epoch; None for no such checkpoints. If a validation
            follows the step, the checkpoint is saved at the next step.
    """

    def __init__(self, folder: Path, every: int | None = None) -> None:
        self.path = folder / LAST
        self.final = folder / FINAL
        self.every = every
        self._waiting = folder / ".last.ckpt.waiting.tmp"
        self._started_at = self._saved_at = 0
        self._is_waiting = False

    def may_save(self, trainer: Trainer, batch_idx: int) -> bool:
        """Whether a run that resumes after this batch continues exactly as this run does.

        False while gradients accumulate, because a checkpoint does not contain them. False before a validation, because
        the resumed run would skip it.
        """
        by_total = trainer.check_val_every_n_epoch is None
        batches = 1 + (trainer.fit_loop.epoch_loop.total_batch_idx if by_total else batch_idx)
        validates = trainer.is_last_batch or batches % (trainer.val_check_batch or float("inf")) == 0
        return not validates and (batch_idx + 1) % trainer.accumulate_grad_batches == 0

    def save(self, trainer: Trainer) -> None:
        """Save now. All processes must call this together."""
        trainer.save_checkpoint(self.path, weights_only=False)
        self._saved_at = trainer.global_step

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Remove the final weights when a run continues training."""
        self._started_at = trainer.global_step
        if trainer.is_global_zero:
            self.final.unlink(missing_ok=True)

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Save within an epoch."""
        last = max(self._started_at, self._saved_at)
        is_due = self.every is not None and trainer.global_step // self.every > last // self.every
        if is_due and self.may_save(trainer, batch_idx):
            self.save(trainer)
        if _ends_within_epoch(trainer) and self.may_save(trainer, batch_idx):
            self._save_for_the_end(trainer)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save if the run ends within an epoch after this validation."""
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        is_update = (trainer.fit_loop.batch_idx + 1) % trainer.accumulate_grad_batches == 0
        if _ends_within_epoch(trainer) and is_update:
            self._save_for_the_end(trainer)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save after an epoch, after its validation and the best checkpoint.

        If the run ends within an epoch, its checkpoint exists already; one of the epoch's end would skip the rest of
        the epoch.
        """
        if self._is_waiting and self._saved_at == trainer.global_step:
            return
        if not _is_last_epoch(trainer):
            self.save(trainer)
        else:
            self._save_for_the_end(trainer)

    def _save_for_the_end(self, trainer: Trainer) -> None:
        trainer.save_checkpoint(self._waiting, weights_only=False)
        self._saved_at = trainer.global_step
        self._is_waiting = True

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the final weights if they are averages, and rename the checkpoint of the last epoch."""
        if not self._is_waiting:
            if trainer.global_step != self._saved_at:
                self.save(trainer)
            return
        if callbacks_of(trainer, WeightAveraging) and not cast(Method, pl_module).finishes:
            trainer.save_checkpoint(self.final, weights_only=True)
        if trainer.is_global_zero:
            os.replace(self._waiting, self.path)
        trainer.strategy.barrier()


class FinalWeights(Callback):
    """Restore or finish the final weights after training, before the learngene is saved and the test begins.

    Callbacks that average weights put the average into the network when training ends. A run that is resumed after that
    does not train. These callbacks then do nothing, and the checkpoint contains the weights before averaging.

    A method that :attr:`~lgx.methods.base.Method.finishes` its weights does so here, unless they are already saved. So
    a run that is killed while it does so finishes them when it is resumed.

    Args:
        folder: The run's folder of checkpoints.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._trained = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Record that this process trains."""
        self._trained = True

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Load the weights that a test of the last checkpoint loads, or finish and save them."""
        final = self.folder / FINAL
        method = cast(Method, pl_module)
        if not self._trained and trainer.ckpt_path is not None:
            self._restore(method, final, trainer.ckpt_path)
        if method.finishes and not final.is_file() and run_folder(trainer) is not None:
            method.finish()
            trainer.save_checkpoint(final, weights_only=True)

    def _restore(self, method: Method, final: Path, last: str | Path) -> None:
        checkpoint = load_checkpoint(final if final.is_file() else last)
        # Without a file of final weights, only Lightning's averaging callback can have changed the network; it keeps
        # both.
        if final.is_file() or "current_model_state" in checkpoint:
            method.load_state_dict(checkpoint["state_dict"])
            method.start_flops = float(checkpoint["lgx"]["start_flops"])


def _ends_within_epoch(trainer: Trainer) -> bool:
    """Whether training ends after this batch, before the last batch of its epoch."""
    return (trainer.global_step == trainer.max_steps or trainer.should_stop) and not trainer.is_last_batch


def _is_last_epoch(trainer: Trainer) -> bool:
    """Whether training ends after this epoch. Lightning counts the epoch when it is asked, so its count is restored."""
    progress = trainer.fit_loop.epoch_progress.current
    completed = progress.completed
    done = trainer.fit_loop.done
    progress.completed = completed
    return done


class Preemption(Checkpoint):
    """On a stop signal, save ``last.ckpt`` after the current step and end the run; one signal requeues a SLURM job.

    Lightning's handler saves at once, which may interrupt a backward pass or a collective call. This handler only sets
    a flag. After each step, all processes agree whether one of them has received a signal. So they save the same state
    and end together. The run ends before the next step, after the last step is logged. If a validation follows the
    step, the run ends after the validation, because a resumed run would skip it.

    Args:
        last: Saves the checkpoint; must come before this callback in the trainer's list.
    """

    def __init__(self, last: LastCheckpoint) -> None:
        self.last = last
        self._saved = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Set the handlers before loader processes start: SLURM signals them too, and they inherit the handlers."""
        if stage == "fit":
            STOP.listen(*STOPS)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Set the handlers again: Lightning has wrapped ours in a handler that calls the other processes at once."""
        STOP.listen(*STOPS)

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
        """End the run after an epoch if a process has received a signal; the epoch is already saved."""
        if not trainer.fit_loop.done and self._agreed(trainer):
            self._leave(trainer)

    def _agreed(self, trainer: Trainer) -> bool:
        return trainer.strategy.reduce_boolean_decision(STOP.received is not None, all=False)

    def _leave(self, trainer: Trainer) -> None:
        """Requeue the job if the signal asks for it, and end this process.

        Raises:
            Preempted: On the first process.
            SystemExit: On the others.
        """
        wants_requeue = trainer.strategy.reduce_boolean_decision(STOP.received == REQUEUE, all=False)
        if not trainer.is_global_zero:
            raise SystemExit(0)
        stop = REQUEUE if wants_requeue else signal.SIGTERM
        code: int = 128 + stop
        then = "the run resumes with --ckpt_path last"
        job = _slurm_job() if wants_requeue else None
        if job:
            refused = _requeue(job)
            code = code if refused else 0
            then = f"{refused}; submit the job again, {then}" if refused else f"job {job} is requeued"
        raise Preempted(f"{stop.name}: saved {self.last.path}; {then}", code)


def _slurm_job() -> str | None:
    """This job's identifier; None outside SLURM."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array:
        return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"
    return os.environ.get("SLURM_JOB_ID")


def _requeue(job: str) -> str:
    """Ask SLURM to queue a job again; return the reason of a failure, otherwise an empty text."""
    command = ["scontrol", "requeue", job]
    try:
        done = subprocess.run(command, capture_output=True, encoding="utf-8", errors="replace", timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"`{' '.join(command)}` failed ({error})"
    return f"`{' '.join(command)}` failed ({done.stderr.strip()})" if done.returncode else ""


_MOMENTS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer")
"""Names of optimizer states that have the shape of their parameter."""


class Resume(Callback):
    """Complete Lightning's restoring.

    - Rows of ``results.csv`` after the checkpoint are removed: the resumed run writes them again, or ends earlier.
    - Errors from the reading of the checkpoint to the end of the first step, in which the optimizer uses its state, are
      errors of the checkpoint: ``io.is_restoring`` is then True, see ``LgxCLI.run``.

    Args:
        io: What reads the run's checkpoints.
    """

    def __init__(self, io: AtomicCheckpointIO) -> None:
        self._io = io
        self._start = 0  # step at which training starts

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Drop rows."""
        folder = run_folder(trainer)
        epochs = checkpoint["lgx"]["epochs"]
        if trainer.state.fn != "fit" or folder is None:
            return
        if trainer.is_global_zero:
            keep_rows(folder / "results.csv", lambda row: row.epochs <= epochs)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the optimizers' state, and set the learning rate from this run's schedule.

        torch's fused kernels do not check shapes, and may end the process. The checkpoint's rate may come
        from a shorter schedule.
        """
        for optimizer in trainer.optimizers if self._io.is_restoring else ():
            wrong = _mistake(optimizer)
            if wrong:
                raise UserError(f"--ckpt_path: the checkpoint is from another run, or is damaged: {wrong}")
        self._start = trainer.global_step
        for schedule in (config.scheduler for config in trainer.lr_scheduler_configs) if self._io.is_restoring else ():
            if isinstance(schedule, LambdaLR):
                rates = zip(schedule.base_lrs, schedule.lr_lambdas, strict=True)
                for group, (base, factor) in zip(schedule.optimizer.param_groups, rates, strict=True):
                    group["lr"] = base * factor(schedule.last_epoch)
            elif isinstance(pl_module, Method) and pl_module.scheduler is not None:
                check_length(pl_module.scheduler, schedule, pl_module.total_steps())

    def on_train_batch_end(self, trainer: Trainer, *args: Any) -> None:
        """The optimizer has used its state, unless gradients are still accumulated."""
        if trainer.global_step > self._start:
            self._io.is_restoring = False

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """An evaluation has restored its checkpoint."""
        if trainer.state.fn != "fit":
            self._io.is_restoring = False

    on_validation_start = on_predict_start = on_test_start


def _mistake(optimizer: Any) -> str | None:
    """What is wrong with the restored state of an optimizer, in words; None if nothing is."""
    inner: Optimizer = getattr(optimizer, "optimizer", optimizer)
    for parameter in (parameter for group in inner.param_groups for parameter in group["params"]):
        for name, value in inner.state.get(parameter, {}).items():
            shape = tuple(getattr(value, "shape", ()))
            if name in _MOMENTS and value is not None and shape != tuple(parameter.shape):
                return f"{name} has shape {shape}, its parameter {tuple(parameter.shape)}"
    return None
