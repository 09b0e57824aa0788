"""The folder of a run: where it lies, and which of its checkpoints is meant."""

from dataclasses import dataclass
from pathlib import Path

from jsonargparse import Namespace
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.errors import UserError
from lgx.training.contract import RunRecord, record_of
from lgx.training.loggers import RunPlace
from lgx.training.restoring import check_run

BEST, LAST, FINAL = "best.ckpt", "last.ckpt", "final.ckpt"
"""Checkpoints of a run. The final one holds the weights of a finished run whose callbacks changed them at its end."""


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that a command loads.

    Attributes:
        path: The file.
        record: What identifies the run that wrote it; None if unknown.
    """

    path: str
    record: RunRecord | None

    def is_in(self, folder: Path) -> bool:
        """Whether it belongs to the run in this folder."""
        return folder.resolve() in Path(self.path).resolve().parents


def configured_folder(config: Namespace) -> Path:
    """The run's folder, ``<runs_dir>/<experiment>/<name>/seed<k>``, as a parsed configuration gives it."""
    return configured_place(config).folder


def configured_place(config: Namespace) -> RunPlace:
    """The run's place, as a parsed configuration gives it."""
    return RunPlace(config.logger.save_dir, config.logger.name, config.logger.version)


def run_folder(trainer: Trainer) -> Path | None:
    """The run's folder; None where nothing may be written (``fast_dev_run``).

    Not ``trainer.log_dir``: that is a broadcast, and hangs when only one process asks.
    """
    return None if getattr(trainer, "fast_dev_run", False) else Path(trainer.default_root_dir)


def best_checkpoint(trainer: Trainer) -> ModelCheckpoint | None:
    """The callback that keeps the best checkpoint; ``trainer.checkpoint_callback`` may be another."""
    return next((c for c in trainer.checkpoint_callbacks if isinstance(c, ModelCheckpoint)), None)


def find_checkpoint(
    folder: Path, command: str, given: str | None, untrained: bool = False, overwrite: bool = False
) -> Checkpoint | None:
    """The checkpoint that a command is to load, checked.

    Args:
        folder: The run's folder.
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        given: Value of ``--ckpt_path``: ``best`` and ``last`` are this run's, anything else is a file.
        untrained: Whether an evaluation without a checkpoint is wanted.
        overwrite: Whether a run that cannot be resumed may be replaced.

    Returns:
        The checkpoint; None for none. ``last`` of a run that has no checkpoint yet starts it, so that a job which is
        requeued needs one command line only.

    Raises:
        UserError: If a checkpoint is needed and none is given, or the given one cannot be read.
    """
    if given is None:
        if command != "fit" and not untrained:
            raise UserError(
                f"needs --ckpt_path: best, last or a file; `lgx {command} … --untrained` evaluates an untrained start"
            )
        return None
    if "://" in given:
        raise UserError(f"--ckpt_path {given}: only local files are read; download it first")
    path = given
    if given in ("best", "last"):
        found = _own(folder / "checkpoints", command, given, overwrite)
        if found is None:
            return None
        path = str(found)
    return Checkpoint(path, record_of(check_run(path, f"--ckpt_path {path}"), path))


def _own(folder: Path, command: str, given: str, overwrite: bool) -> Path | None:
    """The run's own checkpoint of that name; None where ``fit`` starts the run."""
    file = folder / f"{given}.ckpt"
    if given == "last" and command != "fit" and (folder / FINAL).is_file():
        return folder / FINAL
    if file.is_file():
        return file
    if command != "fit" or given != "last":
        raise UserError(f"--ckpt_path {given}: {file} does not exist; run `lgx fit` with this configuration")
    best = folder / BEST
    # A run that is killed between its first validation and its first last.ckpt has a best.ckpt of epoch 0.
    if best.is_file() and not overwrite and (epoch := load_checkpoint(best).get("epoch")) != 0:
        raise UserError(
            f"--ckpt_path last: {file} does not exist, but {best} of epoch {epoch} does; --ckpt_path best resumes from "
            f"it, --overwrite starts anew"
        )
    return None
