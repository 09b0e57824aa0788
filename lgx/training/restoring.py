"""Check a checkpoint before Lightning restores it, and report errors while it is restored as the checkpoint's."""

from contextlib import AbstractContextManager
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.trainer.connectors.checkpoint_connector import _CheckpointConnector
from lightning.pytorch.utilities.exceptions import MisconfigurationException
from torch import Tensor

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.safety import TASK, described_architecture, is_weight
from lgx.core.schema import LINE, MAPPING, Field, at_most, check_fields, list_of, mapping_of
from lgx.errors import UserError
from lgx.host.failures import blame

_COUNT = at_most(2**62)


def _is_plain(value: Any) -> bool:
    """Whether a value consists of numbers, texts and ordinary tensors only."""
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
    """Whether a value consists of counts and flags only."""
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


def check_run(path: str, where: str) -> dict[str, Any]:
    """Read a checkpoint of a run and check it.

    Args:
        path: The file.
        where: The option that names the file, for the message.

    Returns:
        Its content.

    Raises:
        UserError: If it cannot be read, was written by another program, or holds values of unexpected kinds.
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
    return checkpoint


def blame_checkpoint(trainer: Trainer) -> None:
    """Let a trainer attribute every error while it restores a checkpoint to the checkpoint.

    Args:
        trainer: The trainer, before it is used.
    """
    trainer._checkpoint_connector = _Restoring(trainer)


class _Restoring(_CheckpointConnector):
    """Lightning's restoring of checkpoints; it offers no public hook around it."""

    def restore_model(self) -> None:
        """Restore the weights.

        Raises:
            UserError: If they do not suit the network.
        """
        with _blamed():
            super().restore_model()

    def restore_datamodule(self) -> None:
        """Restore the data module.

        Raises:
            UserError: If its state does not suit it.
        """
        with _blamed():
            super().restore_datamodule()

    def restore_callbacks(self) -> None:
        """Restore the callbacks.

        Raises:
            UserError: If a state does not suit its callback.
        """
        with _blamed():
            super().restore_callbacks()

    def restore_training_state(self) -> None:
        """Restore precision, loops, optimizers and schedules.

        Raises:
            UserError: If a state does not suit.
        """
        with _blamed():
            super().restore_training_state()


def _blamed() -> AbstractContextManager[None]:
    return blame("--ckpt_path: the checkpoint is not of this run, or is damaged", MisconfigurationException)
