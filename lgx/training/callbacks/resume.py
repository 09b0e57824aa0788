"""What a run that continues from a checkpoint needs beside what Lightning restores."""

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint, StochasticWeightAveraging
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from lgx.components.optim import check_length
from lgx.core.rows import keep_rows
from lgx.core.schema import shortened
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.training.callbacks.checkpoints import AtomicCheckpointIO
from lgx.training.lightning_internals import place_evaluation
from lgx.training.run_folder import run_folder

_MOMENTS = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer")
"""What optimizers keep in the shape of a parameter."""


class Resume(Callback):
    """Complete what is restored.

    - Rows of ``results.csv`` after the checkpoint go: the resumed run writes them again, or ends earlier.
    - A run whose folder was copied or moved knows its best checkpoint in the present folder. Lightning stores absolute
      paths, and forgets the best score if the folder is another one.
    - Errors from the reading of the checkpoint to the end of the first step, in which the optimizer uses its state, are
      errors of the checkpoint: ``io.is_restoring`` says so, see ``LgxCLI.run``.
    - ``lgx test`` and ``lgx validate`` log at the step of the checkpoint, where Lightning logs at step 0.

    Args:
        io: What reads the run's checkpoints.
    """

    def __init__(self, io: AtomicCheckpointIO) -> None:
        self._io = io
        self._evaluated = (0, 0)  # step and finished epochs of the checkpoint that is evaluated
        self._start = 0  # step at which training starts

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Drop rows and follow a moved folder; of an evaluated checkpoint note the step."""
        if trainer.state.fn != "fit":
            self._evaluated = checkpoint["global_step"], checkpoint["epoch"]
            return
        folder, epochs = run_folder(trainer), checkpoint["lgx"]["epochs"]
        if folder is None:
            return
        if trainer.is_global_zero:
            keep_rows(folder / "results.csv", lambda row: row.epochs <= epochs)
        if folder.resolve() in Path(str(trainer.ckpt_path)).resolve().parents:
            _follow_moved_folder(trainer, checkpoint["callbacks"])

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check the optimizers' state, and give the first step the rate of this run's schedule.

        torch's fused kernels trust shapes and kinds, and may end the process. The checkpoint has the rate of a schedule
        that may have been shorter.
        """
        for optimizer in trainer.optimizers if self._io.is_restoring else ():
            if wrong := _mistake(optimizer):
                raise UserError(f"--ckpt_path: the checkpoint is not of this run, or is damaged: {wrong}")
        self._start = trainer.global_step
        callbacks = trainer.callbacks  # type: ignore[attr-defined]
        if self._io.is_restoring and not any(isinstance(each, StochasticWeightAveraging) for each in callbacks):
            for schedule in (config.scheduler for config in trainer.lr_scheduler_configs):
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
        """Log at the step of the checkpoint."""
        if trainer.state.fn != "fit":
            self._io.is_restoring = False
            if self._evaluated[0]:
                place_evaluation(trainer, *self._evaluated)

    on_validation_start = on_predict_start = on_test_start


def _follow_moved_folder(trainer: Trainer, states: dict[str, Any]) -> None:
    """Replace the former folder in the states of the callbacks that keep checkpoints."""
    for callback in trainer.checkpoint_callbacks:
        state = states.get(callback.state_key)
        if not isinstance(callback, ModelCheckpoint) or not state or not callback.dirpath:
            continue
        now = str(callback.dirpath)
        former = state.get("dirpath", now)
        if former != now and (Path(now) / Path(state["best_model_path"]).name).is_file():
            states[callback.state_key] = _moved(state, former, now)


def _mistake(optimizer: Any) -> str | None:
    """What is wrong with the restored state of an optimizer, in words; None if nothing is."""
    inner: Optimizer = getattr(optimizer, "optimizer", optimizer)
    for group in inner.param_groups:
        for key, default in inner.defaults.items():
            value = group.get(key, default)
            is_number = _is_number(default) and _is_number(value)
            if default is not None and not is_number and not isinstance(value, type(default)):
                return f"{key} of the optimizer is {shortened(value)}, expected a value like {default}"
        for parameter in group["params"]:
            state = inner.state.get(parameter, {})
            if not isinstance(state, dict):
                return f"state of a parameter is {shortened(state)}"
            for name, value in state.items():
                shape = tuple(getattr(value, "shape", ()))
                if name in _MOMENTS and value is not None and shape != tuple(parameter.shape):
                    return f"{name} has shape {shape}, its parameter {tuple(parameter.shape)}"
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | Tensor) and not isinstance(value, bool)


def _moved(value: Any, former: str, now: str) -> Any:
    """A state with other paths."""
    if isinstance(value, dict):
        return {_moved(key, former, now): _moved(part, former, now) for key, part in value.items()}
    if isinstance(value, str) and (value == former or value.startswith(f"{former}/")):
        return now + value.removeprefix(former)
    return value
