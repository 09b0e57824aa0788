"""What a run is given: its checkpoint checked before Lightning takes it, and what to blame where a value is refused."""

import traceback
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer, cli
from lightning.pytorch.trainer.connectors import checkpoint_connector
from torch import Tensor
from torch.optim import Optimizer

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.metadata_schema import TASK, described_architecture
from lgx.artifacts.tensor_checks import is_weight
from lgx.core.schema import LINE, MAPPING, Field, at_most, check_fields, list_of, mapping_of, shortened
from lgx.errors import UserError
from lgx.methods import base

_COUNT = at_most(2**62)
_ELSE = "give another checkpoint of the run, or train it again"


def _is_plain(value: Any) -> bool:
    """Whether a value is made of numbers, texts and ordinary tensors alone."""
    waiting, seen = [value], 0
    while waiting and seen < 10**6:
        current, seen = waiting.pop(), seen + 1
        if isinstance(current, dict):
            waiting += [*current.keys(), *current.values()]
        elif isinstance(current, list | tuple):
            waiting += current
        elif isinstance(current, int) and abs(current) >= 2**63:
            return False
        elif not (isinstance(current, int | float | str | None) or _is_tensor(current)):
            return False
    return not waiting


def _is_progress(value: Any) -> bool:
    """Whether a value is made of counts and flags alone."""
    if isinstance(value, dict | list):
        return all(map(_is_progress, value.values() if isinstance(value, dict) else value))
    return value is None or (isinstance(value, int) and 0 <= value < 2**62)


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor) and (not value.is_floating_point() or is_weight(value)) and not value.is_sparse


_PLAIN = Field(_is_plain, "plain values and tensors")
_TENSORS = Field(
    lambda value: isinstance(value, dict) and all(isinstance(k, str) and _is_tensor(v) for k, v in value.items()),
    "tensors by name",
)
_RUN = {"pytorch-lightning_version": LINE, "state_dict": _TENSORS, "lgx": MAPPING}
_STATE = {
    "epoch": _COUNT,
    "global_step": _COUNT,
    "loops": mapping_of(Field(_is_progress, "counts")),
    "callbacks": Field(lambda value: isinstance(value, dict) and _is_plain(value), "a mapping of plain values"),
    **dict.fromkeys(("optimizer_states", "lr_schedulers"), list_of(Field(lambda v: isinstance(v, dict), "mappings"))),
}


def check_run(path: str, where: str) -> None:
    """Refuse a file that is no checkpoint of a run.

    Args:
        path: The file.
        where: What the user gave it with, for the message.

    Raises:
        UserError: If it cannot be read, is of another program, or holds values of other kinds than a run's.
    """
    checkpoint = load_checkpoint(path)
    if not _RUN.keys() <= checkpoint.keys():
        raise UserError(f"{where}: not a checkpoint of an lgx run")
    place = f"{where}: is damaged"
    about = check_fields(checkpoint, _RUN | _STATE, place)["lgx"]
    check_fields(about, {"method": LINE, "epochs": _COUNT, "optimizers": list_of(LINE), "task": MAPPING}, place)
    check_fields(about.get("task", {}), TASK, f"{place}: task")
    if "architecture" in about:
        described_architecture(about["architecture"], place)
    for key in ("optimizer_states", "lr_schedulers"):
        for state in checkpoint.get(key, []):
            check_fields({key: state}, {key: _PLAIN}, place)


_BLAME = (
    (checkpoint_connector.__file__, None, "--ckpt_path: the checkpoint is not of this run, or is damaged"),
    (cli.__file__, "instantiate_classes", "the configuration holds a value that is refused"),
    (base.__file__, "configure_optimizers", "model.optimizer or model.scheduler: a value is refused"),
)
"""File and function of Lightning's or ours -> what the user gave that is taken into use there."""


def blamed(error: BaseException) -> str | None:
    """What the user gave that led to an error of Lightning or torch, in words; None where that is not known."""
    frames = [frame.f_code for frame, _ in traceback.walk_tb(error.__traceback__)]
    for file, function, words in _BLAME:
        if any(code.co_filename == file and code.co_name == (function or code.co_name) for code in frames):
            return words
    return None


class CheckRestored(Callback):
    """Refuse an optimizer's state that is not of its parameters, before the first step fails on it."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Look at every optimizer of a run that goes on.

        Raises:
            UserError: If moments have another shape than their parameters, or an option is not what it was.
        """
        if trainer.ckpt_path is not None:
            for optimizer in trainer.optimizers:
                if wrong := _mistake(optimizer):
                    raise UserError(f"--ckpt_path {trainer.ckpt_path}: the optimizer's {wrong}; {_ELSE}")


def _mistake(optimizer: Any) -> str | None:
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
    if isinstance(default, bool):
        return isinstance(value, bool)
    if isinstance(default, tuple | list):
        return isinstance(value, tuple | list) and len(value) == len(default) and all(map(_alike, value, default))
    if isinstance(value, Tensor) and value.ndim == 0:  # a learning rate may be one
        value = value.item()
    if isinstance(default, int | float):
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e30
    return isinstance(value, type(default))
