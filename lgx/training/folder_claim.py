"""Claim a run folder for a new run: refuse what would be lost, and replace an earlier run in one step.

An earlier run that is replaced is moved aside, and deleted when the new run's first step begins. If the new run ends
before, for whatever reason, the earlier run is moved back.
"""

import glob
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.artifacts.learngene import SUFFIX
from lgx.errors import UserError
from lgx.host.locks import run_lock
from lgx.host.safety import load_plain
from lgx.training.run_folder import SUMMARY, Checkpoint, is_complete
from lgx.training.same_run import RunIdentity, check_configuration, check_optimizer

_WRITTEN = re.compile(
    r"config\.yaml|results\.csv|test_classes\.csv|front\.csv|summary\.json|finished\.json|hparams\.yaml|metrics\.csv|events\.out\.tfevents\..*"
    r"|predictions(\.rank\d+)?\.csv|\w[\w.-]*\.svg|.*\.learngene\.safetensors|checkpoints/.*\.ckpt(/.*)?"
    r"|wandb/.*|mlflow\.db(-\w+)?|mlartifacts/.*"
    r"|(.*/)?\.[^/]*\.(tmp|lock)(/.*)?|lightning_logs/.*"
)
"""Files of a run folder that lgx, Lightning or a logger has written."""


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
        self._replaces = False
        self._is_unchanged = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder in the block; an earlier run that is still aside at its end is put back."""
        if not self.writes:
            yield
            return
        with run_lock(self.folder):
            recover(self.folder)
            try:
                yield
            finally:
                recover(self.folder)

    def check(
        self, checkpoint: Checkpoint | None, now: RunIdentity, inputs: Iterable[tuple[str, Path]]
    ) -> Checkpoint | None:
        """Compare the run with its configuration, or the folder with a new run; nothing is changed yet.

        Args:
            checkpoint: The checkpoint that training is to start from.
            now: What identifies the run that is configured now, as far as it is known without its data.
            inputs: Options, and the files or folders that they name.

        Returns:
            The checkpoint; None if the run in the folder is another one and may be replaced.
        """
        if checkpoint is not None and checkpoint.is_in(self.folder):
            if self._may_resume(checkpoint.identity, now):
                return checkpoint
            checkpoint = None
        elif checkpoint is not None and checkpoint.identity is not None:
            check_optimizer(checkpoint.identity, now, checkpoint.path)
        if self.writes:
            check_claim(self.folder, self.overwrite, self.resumes)
            for option, file in inputs:
                if self.folder.resolve() in file.resolve().parents:
                    belongs = f"{file} belongs to the run that --overwrite replaces"
                    raise UserError(f"{option}: {belongs}; copy it, or give --name")
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
        if not self.writes:
            return
        if not self._replaces:
            (self.folder / SUMMARY).unlink(missing_ok=True)
        elif self.folder.is_dir():
            folder = self.folder.resolve()  # the target of a symbolic link moves, and the link stays
            try:
                folder.rename(_aside(folder))
                folder.mkdir()
            except OSError as error:
                raise UserError(f"{folder}: cannot be replaced ({error.strerror}); give another --name") from error

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Delete the run that was replaced."""
        aside = _aside(self.folder.resolve())
        if self._replaces and aside.is_dir():
            # In one step, because a folder that is deleted in part must not be put back.
            trash = tempfile.mkdtemp(prefix=f"{aside.name}.", suffix=".tmp", dir=aside.parent)
            shutil.rmtree(aside.rename(trash), ignore_errors=True)


def check_claim(folder: Path, overwrite: bool, resumes: bool) -> None:
    """Refuse to start a run in a folder whose contents would be lost.

    Args:
        folder: The run's folder; nothing is resumed from a checkpoint in it.
        overwrite: Whether another run in the folder may be replaced.
        resumes: Whether the last checkpoint was asked for. A run that ended before it saved a checkpoint starts anew.
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


def recover(folder: Path) -> None:
    """Put back a run that was moved aside, and delete what was being deleted, also by a process that was killed.

    Args:
        folder: The run's folder, whose lock this process holds.
    """
    folder = folder.resolve()
    for trash in folder.parent.glob(f"{glob.escape(_aside(folder).name)}.*tmp"):
        shutil.rmtree(trash, ignore_errors=True)
    if (aside := _aside(folder)).is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)


def _aside(folder: Path) -> Path:
    """Where a whole folder is moved; while it is deleted, a unique part and ``.tmp`` follow behind its name."""
    return folder.with_name(f".{folder.name}.old")
