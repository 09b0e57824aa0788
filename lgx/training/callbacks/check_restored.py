"""Check the restored state of the optimizers before the first step."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.optim import Optimizer

from lgx.core.schema import shortened
from lgx.errors import UserError

_ELSE = "give another checkpoint of the run, or train it again"


class CheckRestored(Callback):
    """Refuse a state that does not suit the optimizer's parameters: the first step would fail without naming it."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check every optimizer of a resumed run.

        Raises:
            UserError: If moments and parameters differ in shape, or an option has a value of another kind.
        """
        if trainer.ckpt_path is not None:
            for optimizer in trainer.optimizers:
                if wrong := _mistake(optimizer):
                    raise UserError(f"--ckpt_path {trainer.ckpt_path}: the optimizer's {wrong}; {_ELSE}")


def _mistake(optimizer: Any) -> str | None:
    """What is wrong with an optimizer's state, in words; None if nothing is."""
    inner: Optimizer = getattr(optimizer, "optimizer", optimizer)
    for group in inner.param_groups:
        for key, default in inner.defaults.items():
            if default is not None and not _alike(group.get(key, default), default):
                return f"{key} is {shortened(group.get(key))}, expected a value like {default}"
        for parameter in group["params"]:
            state = inner.state.get(parameter, {})
            if not isinstance(state, dict):
                return f"state of a parameter is {shortened(state)}, expected keys and values"
            for name, value in state.items():
                if name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq", "momentum_buffer") and value is not None:
                    shape = tuple(getattr(value, "shape", ()))
                    if shape != tuple(parameter.shape):
                        return f"{name} has shape {shape}, its parameter {tuple(parameter.shape)}"
        if group.get("amsgrad") and any(
            "max_exp_avg_sq" not in inner.state[p] for p in group["params"] if inner.state[p]
        ):
            return "amsgrad is on, but its maxima are missing"
    return None


def _alike(value: Any, default: Any) -> bool:
    """Whether an option of an optimizer has a value of the kind of its default."""
    if isinstance(default, bool):
        return isinstance(value, bool)
    if isinstance(default, tuple | list):
        return isinstance(value, tuple | list) and len(value) == len(default) and all(map(_alike, value, default))
    if isinstance(value, Tensor) and value.ndim == 0:  # a learning rate may be one
        value = value.item()
    if isinstance(default, int | float):
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30
    return isinstance(value, type(default))
