"""The folder of a run: where it lies, whether a run may write there, and which of its checkpoints is meant."""

import shutil
from pathlib import Path

from jsonargparse import Namespace
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.utilities.rank_zero import rank_zero_only

from lgx.errors import UserError
from lgx.training.restoring import check_run
from lgx.training.summary import SUMMARY


def configured_folder(config: Namespace) -> Path:
    """The run's folder, ``<runs_dir>/<experiment>/<name>/seed<k>``, as a parsed configuration gives it."""
    return Path(config.logger.save_dir, config.logger.name, config.logger.version)


def run_folder(trainer: Trainer) -> Path | None:
    """The run's folder; None where nothing may be written (``fast_dev_run``).

    Not ``trainer.log_dir``: that is a broadcast, and hangs when only one process asks.
    """
    return None if getattr(trainer, "fast_dev_run", False) else Path(trainer.default_root_dir)


def best_checkpoint(trainer: Trainer) -> ModelCheckpoint | None:
    """The callback that keeps the best checkpoint; ``trainer.checkpoint_callback`` may be another."""
    return next((c for c in trainer.checkpoint_callbacks if isinstance(c, ModelCheckpoint)), None)


def find_checkpoint(folder: Path, command: str, given: str | None, untrained: bool) -> str | None:
    """The checkpoint that a command is to load, checked.

    Args:
        folder: The run's folder.
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        given: Value of ``--ckpt_path``: ``best`` and ``last`` are this run's, anything else is a file.
        untrained: Whether an evaluation without a checkpoint is wanted.

    Returns:
        The file; None for none. ``last`` of a run that has no checkpoint yet starts it, so that a job which is requeued
        needs one command line only.

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
        file = folder / "checkpoints" / f"{given}.ckpt"
        if not file.is_file():
            if command == "fit" and given == "last":
                return None
            raise UserError(f"--ckpt_path {given}: {file} does not exist; run `lgx fit` with this configuration")
        path = str(file)
    check_run(path, f"--ckpt_path {path}")
    return path


@rank_zero_only
def claim(folder: Path, checkpoint: str | None, overwrite: bool, resumes: bool) -> None:
    """Empty the folder for a new run, or leave it to the run that is resumed there.

    Args:
        folder: The run's folder.
        checkpoint: The checkpoint that training starts from.
        overwrite: Whether another run in the folder may be deleted.
        resumes: Whether the last checkpoint was asked for. A run that ended before it saved a checkpoint starts anew.

    Raises:
        UserError: If the folder holds another run, whose files would be mixed with the new ones.
    """
    own = checkpoint is not None and folder.resolve() in Path(checkpoint).resolve().parents
    if own or not folder.exists():
        return
    kept = any(folder.rglob("*.ckpt")) or (folder / "results.csv").exists()
    unfinished = not (folder / SUMMARY).exists()
    if kept and not overwrite and not (resumes and unfinished):
        raise UserError(
            f"{folder} already holds a run: --ckpt_path last resumes it, --overwrite replaces it, "
            f"--name or --seed_everything starts another"
        )
    shutil.rmtree(folder)
