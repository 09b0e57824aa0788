"""Claim a run folder for a new run: refuse what would be lost, and replace an earlier run in one step.

An earlier run that is replaced is moved aside, and deleted when the new run's first step begins. If the new run ends
before, for whatever reason, the earlier run is moved back.
"""

import re
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.artifacts.learngene import SUFFIX
from lgx.errors import UserError
from lgx.host.locks import run_lock
from lgx.host.safety import load_plain
from lgx.training.run_folder import Checkpoint
from lgx.training.same_run import RunIdentity, check_configuration, check_optimizer, flat_options
from lgx.training.summary import SUMMARY, is_complete

_OLD, _TRASH = ".old", ".tmp"
"""Ends of the names of a whole folder that was moved aside, and of one that is being deleted."""

_WRITTEN = re.compile(
    r"config\.yaml|results\.csv|summary\.json|finished\.json|hparams\.yaml|metrics\.csv|events\.out\.tfevents\..*"
    r"|predictions(\.rank\d+)?\.csv|\w[\w.-]*\.svg|.*\.learngene\.safetensors|checkpoints/.*\.ckpt(/.*)?"
    r"|wandb/.*|mlflow\.db(-\w+)?|mlartifacts/.*"
    r"|(.*/)?\.[^/]*\.(tmp|lock)(/.*)?|lightning_logs/.*"
)
"""Files of a run folder that lgx, Lightning or a logger has written."""


_NO_INPUTS = ("ckpt_path", "trainer.logger")
"""Beginnings of the keys that name no files that the new run reads."""


class FolderClaim(Callback):
    """The claim of ``lgx fit`` on a run folder: its lock, the comparison with the run that it holds, its replacement.

    Only the first process of a run holds the lock and replaces anything. As a callback it deletes the run that was
    replaced, when the first step begins.

    Args:
        folder: The run's folder.
        resumes: Whether the last checkpoint is asked for.
        overwrite: Whether another run in the folder may be replaced.
        writes: Whether this process writes to the folder.
    """

    def __init__(self, folder: Path, resumes: bool, overwrite: bool, writes: bool) -> None:
        self.folder, self.resumes, self.overwrite, self.writes = folder, resumes, overwrite, writes
        self.resumed: RunIdentity | None = None
        self._aside: _Aside | None = None
        self._held = ExitStack()
        self._replaces = False
        self._is_unchanged = False

    def __enter__(self) -> Self:
        with ExitStack() as held:
            if self.writes:
                held.enter_context(run_lock(self.folder))
                held.callback(self._restore)
                recover(self.folder)
            self._held = held.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._held.__exit__(*error)

    def _restore(self) -> None:
        if self._aside is not None:
            self._aside.restore()

    def check(self, checkpoint: Checkpoint | None, now: RunIdentity) -> Checkpoint | None:
        """Compare the run with its configuration, or the folder with a new run; nothing is changed yet.

        Args:
            checkpoint: The checkpoint that training is to start from.
            now: What identifies the run that is configured now, as far as it is known without its data.

        Returns:
            The checkpoint; None if the run in the folder is another one and may be replaced.

        Raises:
            UserError: If the configuration does not suit the run, or the folder would lose what it holds.
        """
        if checkpoint is not None and checkpoint.is_in(self.folder):
            if self._may_resume(checkpoint.identity, now):
                return checkpoint
            checkpoint = None
        elif checkpoint is not None and checkpoint.identity is not None:
            check_optimizer(checkpoint.identity, now.config, checkpoint.path)
        if self.writes:
            check_claim(self.folder, self.overwrite, self.resumes)
            check_inputs(self.folder, flat_options(load_plain(now.config)))
            self._replaces = True
        return checkpoint

    def _may_resume(self, record: RunIdentity | None, now: RunIdentity) -> bool:
        """Whether the run in the folder goes on as it is configured now; False if it is to be replaced."""
        if record is None:
            return True
        try:
            options, code = check_configuration(record, now, self.folder)
        except UserError:
            if self.overwrite:
                return False
            raise
        self.resumed, self._is_unchanged = record, not options
        for line in (*code, *options) if self.writes else ():
            print(f"resumed    {line}")
        return True

    def is_finished(self, test_end: bool) -> bool:
        """Whether the run is finished exactly as it is configured, so that nothing is left to do.

        Args:
            test_end: Whether the final weights are to be tested.
        """
        if not self._is_unchanged or self.resumed is None:
            return False
        tested = bool((load_plain(self.resumed.config) or {}).get("test_end"))
        return is_complete(self.folder) and (tested or not test_end)

    def begin(self) -> None:
        """Move an earlier run aside, or mark the resumed run as unfinished."""
        if self.writes and self._replaces:
            self._aside = _Aside(self.folder)
        elif self.writes:
            (self.folder / SUMMARY).unlink(missing_ok=True)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Delete the run that was replaced."""
        if self._aside is not None:
            self._aside.delete()


def check_claim(folder: Path, overwrite: bool, resumes: bool) -> None:
    """Refuse to start a run in a folder whose contents would be lost.

    Args:
        folder: The run's folder; nothing is resumed from a checkpoint in it.
        overwrite: Whether another run in the folder may be replaced.
        resumes: Whether the last checkpoint was asked for. A run that ended before it saved a checkpoint starts anew.

    Raises:
        UserError: If the folder holds another run, or files that lgx did not write.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder}: is a file, expected the folder of a run; give another --name")
    names = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if not path.is_dir()]
    if foreign := [name for name in names if not _WRITTEN.fullmatch(name)]:
        raise UserError(f"{folder} holds {foreign[0]}, which lgx did not write; move it away, or give another --name")
    has_run = any(name.endswith(".ckpt") or name == "results.csv" for name in names)
    is_finished = SUMMARY in names or any(name.endswith(SUFFIX) for name in names)
    if (is_finished or (has_run and not resumes)) and not overwrite:
        raise UserError(
            f"{folder} already holds a run: --ckpt_path last resumes it, --overwrite replaces it, "
            f"--name or --seed_everything starts another"
        )


def check_inputs(folder: Path, options: Mapping[str, Any]) -> None:
    """Refuse options that name files of the run that is to be replaced.

    Args:
        folder: The run's folder.
        options: Key -> value of the configuration.

    Raises:
        UserError: If a value is a path in the folder.
    """
    place = folder.resolve()
    for key, value in options.items():
        if key.startswith(_NO_INPUTS):
            continue
        if isinstance(value, str) and "\0" not in value and len(value) < 4096:
            path = Path(value).resolve()
            if path != place and place in path.parents:
                raise UserError(f"{key}: {value} belongs to the run that --overwrite replaces; copy it, or give --name")


class _Aside:
    """The earlier content of a run folder, moved aside.

    Args:
        folder: The run's folder; nothing happens if it does not exist.

    Raises:
        UserError: If it cannot be moved.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()  # the target of a symbolic link moves, and the link stays
        self._old: Path | None = None
        if self.folder.is_dir():
            old = self.folder.parent / f".{self.folder.name}.{uuid.uuid4().hex[:8]}{_OLD}"
            try:
                self.folder.rename(old)
                self.folder.mkdir()
            except OSError as error:
                raise UserError(f"{folder}: cannot be replaced ({error.strerror}); give another --name") from error
            self._old = old

    def restore(self) -> None:
        """Move the earlier content back, unless it was deleted."""
        if self._old is not None:
            _put_back(self._old, self.folder)
            self._old = None

    def delete(self) -> None:
        """Delete the earlier content."""
        if self._old is not None:
            trash = self._old.with_suffix(_TRASH)
            self._old.rename(trash)  # in one step, because a folder that is deleted in part must not be restored
            self._old = None
            shutil.rmtree(trash, ignore_errors=True)
            if trash.exists():
                print(f"note       {trash} could not be deleted; remove it")


def recover(folder: Path) -> None:
    """Finish what a killed process left: put back a run that was moved aside, and delete what was being deleted.

    Args:
        folder: The run's folder, whose lock this process holds.
    """
    folder = folder.resolve()
    for trash in _siblings(folder, _TRASH):
        shutil.rmtree(trash, ignore_errors=True)
    for old in _siblings(folder, _OLD):
        _put_back(old, folder)


def _put_back(old: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    old.rename(folder)


def _siblings(folder: Path, suffix: str) -> Iterator[Path]:
    if folder.parent.is_dir():
        pattern = re.compile(rf"\.{re.escape(folder.name)}\.[0-9a-f]{{8}}{re.escape(suffix)}")
        yield from [path for path in folder.parent.iterdir() if pattern.fullmatch(path.name) and path.is_dir()]
