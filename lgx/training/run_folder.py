"""The folder of a run: its place, its checkpoints, its summary, and its claim for a new run.

A claim refuses what would be lost, and replaces an earlier run in one step. The replaced run is moved aside, and
deleted when the new run's first step begins. If the new run ends before that, the earlier run is moved back.
"""

import glob
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jsonargparse import Namespace
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from data_modules.loading.fingerprint import fingerprint_of_names
from lgx.artifacts.checkpoints import BEST as BEST
from lgx.artifacts.checkpoints import FINAL as FINAL
from lgx.artifacts.checkpoints import LAST as LAST
from lgx.artifacts.checkpoints import SUMMARY as SUMMARY
from lgx.artifacts.checkpoints import load_checkpoint, weights_of_run
from lgx.artifacts.source_names import LEARNGENE
from lgx.artifacts.sources import learngene_of
from lgx.core.provenance import commit, hardware
from lgx.core.schema import LINE, MAPPING, NUMBER, at_most, check_fields
from lgx.core.seed import seed_of
from lgx.core.task import Task, ignored_target
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.host.locks import run_lock
from lgx.training.same_run import RunIdentity, check_configuration, check_optimizer, identity_of

_COUNT = at_most(2**62)
_FIELDS = {"pytorch-lightning_version": LINE, "state_dict": MAPPING, "lgx": MAPPING, "callbacks": MAPPING}
_FIELDS |= {"global_step": _COUNT, "epoch": _COUNT}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that a command loads.

    Attributes:
        path: The file.
        identity: What identifies the run that wrote it; None if unknown.
        about: Its method's description.
    """

    path: str
    identity: RunIdentity | None
    about: Mapping[str, Any]

    def is_in(self, folder: Path) -> bool:
        """Whether it belongs to the run in this folder."""
        return folder.resolve() in Path(self.path).resolve().parents


def place_of_run(config: Namespace) -> Path:
    """The run's folder, ``<runs_dir>/<experiment>/<name>/seed<k>``, as a parsed configuration gives it."""
    name = config.name or str(config.model.class_path).rsplit(".", 1)[-1].lower()
    return Path(config.runs_dir, config.experiment, name, f"seed{seed_of(config.seed_everything)}")


def run_folder(trainer: Trainer) -> Path | None:
    """The run's folder; None where nothing may be written (``fast_dev_run``).

    Not ``trainer.log_dir``: that is a broadcast, and hangs when only one process asks.
    """
    return None if getattr(trainer, "fast_dev_run", False) else Path(trainer.default_root_dir)


def best_checkpoint(trainer: Trainer) -> ModelCheckpoint | None:
    """The callback that keeps the best checkpoint; ``trainer.checkpoint_callback`` may be another."""
    return next((c for c in trainer.checkpoint_callbacks if isinstance(c, ModelCheckpoint)), None)


def find_checkpoint(
    folder: Path, command: str, name: str | None, untrained: bool = False, overwrite: bool = False
) -> Checkpoint | None:
    """The checkpoint that a command is to load, checked.

    Args:
        folder: The run's folder.
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        name: Value of ``--ckpt_path``: ``best`` and ``last`` are this run's, anything else is a file; None evaluates
            the run's weights, see :func:`~lgx.artifacts.checkpoints.weights_of_run`.
        untrained: Whether an evaluation without a checkpoint is wanted.
        overwrite: Whether a run that cannot be resumed may be replaced.

    Returns:
        The checkpoint; None for none. ``last`` of a run that has no checkpoint yet starts it, so that a job which is
        requeued needs one command line only.
    """
    if name is None and (command == "fit" or untrained):
        return None
    if name is None:
        if not (folder / "checkpoints").is_dir():
            raise UserError(
                f"{folder}: no run is there; train it with `lgx fit`, or give --ckpt_path, or --untrained for its start"
            )
        name = weights_of_run(str(folder))
    path = name
    if name in ("best", "last"):
        file = _checkpoint_of_run(folder / "checkpoints", command, name, overwrite)
        if file is None:
            return None
        path = str(file)
    content = load_checkpoint(path)
    _check(content, f"--ckpt_path {path}")
    return Checkpoint(path, identity_of(content, path), content["lgx"])


def _check(content: dict[str, Any], place: str) -> None:
    """Refuse what no run of lgx wrote. Whatever else does not suit is found while it is restored, see ``Resume``."""
    needed = _FIELDS.keys() if "optimizer_states" in content else _FIELDS.keys() - {"callbacks"}  # of final.ckpt
    if not needed <= content.keys():
        raise UserError(f"{place}: not a checkpoint of an lgx run")
    about = check_fields(content, _FIELDS, f"{place}: is damaged")["lgx"]
    check_fields(about, {"method": LINE, "epochs": _COUNT}, f"{place}: is damaged", complete=True)
    check_fields(about, {"start_flops": NUMBER}, f"{place}: is damaged")


def _checkpoint_of_run(folder: Path, command: str, name: str, overwrite: bool) -> Path | None:
    """The run's checkpoint of that name; None where ``fit`` starts the run."""
    file = folder / f"{name}.ckpt"
    if name == "last" and command != "fit" and (folder / FINAL).is_file():
        return folder / FINAL
    if file.is_file():
        return file
    if command != "fit" or name != "last":
        raise UserError(f"--ckpt_path {name}: {file} does not exist; run `lgx fit` with this configuration")
    best = folder / BEST
    # A run that is killed between its first validation and its first last.ckpt has a best.ckpt of epoch 0.
    epoch = load_checkpoint(best).get("epoch") if best.is_file() and not overwrite else 0
    if epoch != 0:
        raise UserError(
            f"--ckpt_path last: {file} does not exist, but {best} of epoch {epoch} does; --ckpt_path best resumes from "
            f"it, --overwrite starts anew"
        )
    return None


def is_complete(folder: Path) -> bool:
    """Whether a run has finished and its files are still there."""
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return learngene_of(folder).is_file() or summary.get("learngene") is False


def write_summary(
    folder: Path,
    trainer: Trainer,
    costs: Mapping[str, float | None],
    sources: Mapping[str, str],
    health: dict[str, Any],
    weights: str,
) -> None:
    """Write ``summary.json`` into the run's folder.

    Args:
        folder: The run's folder.
        trainer: The trainer that has finished.
        costs: What the run has counted: ``flops`` (None if compiled) and ``examples`` of all training steps,
            ``start_flops`` of the start of the network, ``peak_bytes`` of memory, and ``seconds`` of wall time with
            tests; of a resumed run also the time until its checkpoint.
        sources: Option -> digest of the file of weights that it names.
        health: What :class:`~lgx.training.callbacks.health.TrainingHealth` has measured.
        weights: Whether the run's weights are its ``best`` or its ``last`` ones.
    """
    data: Any = trainer.datamodule  # type: ignore[attr-defined]
    tasks: dict[str, Task] = data.all_tasks
    # Tasks whose examples have one class each, which gives their chance level.
    single = {k: t for k, t in tasks.items() if t.is_labeled and ignored_target(t.kind) is None}
    summary = {
        "lgx_version": __version__,
        "torch_version": str(torch.__version__),
        "commit": commit(),
        "device": hardware(trainer.strategy.root_device.type == "cuda"),
        "processes": trainer.world_size,
        "precision": trainer.precision,
        "epochs": trainer.current_epoch,
        "steps": trainer.global_step,
        "batches": trainer.fit_loop.total_batch_idx + 1,
        **costs,
        "sources": dict(sources),
        "classes": {name: task.num_classes for name, task in single.items()},
        "outputs": {name: task.num_classes for name, task in tasks.items()},
        "class_fingerprints": {k: fingerprint_of_names(t.class_names) for k, t in tasks.items() if t.class_names},
        "learngene": learngene_of(folder).is_file(),
        "weights": weights,
        "health": health,
    }
    with atomic_path(folder / SUMMARY) as temporary:
        temporary.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")


_WRITTEN = re.compile(
    r"config\.yaml|results\.csv|test_classes(-[\w.-]+)?\.csv|report\.html|front\.csv|summary\.json"
    r"|finished\.json|hparams\.yaml|metrics\.csv|events\.out\.tfevents\..*"
    r"|predictions(\.rank\d+)?\.csv|\w[\w.-]*\.svg|.*\.learngene\.safetensors|checkpoints/.*\.ckpt(/.*)?"
    r"|csv/version_\d+/(metrics\.csv|hparams\.yaml)|wandb/.*|mlflow\.db(-\w+)?|mlartifacts/.*"
    r"|(.*/)?\.[^/]*\.(tmp|lock)(/.*)?|lightning_logs/.*"
)
"""Files of a run folder that lgx, Lightning or a logger has written."""


class FolderClaim(Callback):
    """The claim of ``lgx fit`` on a run folder: lock it, compare its run with the configuration, replace the run.

    Only the first process of a run holds the lock and replaces anything. As a callback it deletes the replaced run when
    the first step begins.

    Args:
        folder: The run's folder.
        resumes: Whether ``--ckpt_path last`` is given.
        overwrite: Whether another run in the folder may be replaced.
        writes: Whether this process writes to the folder.
    """

    def __init__(self, folder: Path, resumes: bool, overwrite: bool, writes: bool) -> None:
        self.folder = folder
        self.resumes = resumes
        self.overwrite = overwrite
        self.writes = writes
        self.resumed: RunIdentity | None = None
        self._replaces = False
        self._is_unchanged = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the folder in the block; at its end, put back an earlier run that is still aside."""
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
        """Compare the folder's run with the configuration; change nothing.

        Args:
            checkpoint: The checkpoint from which training will start.
            now: Identity of the configured run, without its data.
            inputs: Options, and the files or folders that they name.

        Returns:
            The checkpoint; None if the folder contains another run that may be replaced.
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
        """Whether the folder's run continues with this configuration; False if it will be replaced."""
        if record is None:
            return True
        try:
            options, code = check_configuration(record, now, self.folder)
        except UserError:
            if self.overwrite:
                return False
            raise
        self.resumed = record
        self._is_unchanged = not options
        for line in (*code, *options) if self.writes else ():
            print(f"resumed    {line}")
        return True

    def is_finished(self) -> bool:
        """Whether the run is finished with exactly this configuration."""
        return self._is_unchanged and is_complete(self.folder)

    def begin(self) -> None:
        """Move an earlier run aside, or mark the resumed run as unfinished."""
        if not self.writes:
            return
        if not self._replaces:
            (self.folder / SUMMARY).unlink(missing_ok=True)
        elif self.folder.is_dir():
            folder = self.folder.resolve()  # the target of a symbolic link moves; the link stays
            try:
                folder.rename(_aside(folder))
                folder.mkdir()
            except OSError as error:
                raise UserError(f"{folder}: cannot be replaced ({error.strerror}); give another --name") from error

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Delete the run that was replaced."""
        aside = _aside(self.folder.resolve())
        if self._replaces and aside.is_dir():
            # Rename first: a partly deleted folder must not be put back.
            trash = tempfile.mkdtemp(prefix=f"{aside.name}.", suffix=".tmp", dir=aside.parent)
            shutil.rmtree(aside.rename(trash), ignore_errors=True)


def check_claim(folder: Path, overwrite: bool, resumes: bool) -> None:
    """Refuse a folder whose contents a new run would destroy.

    Args:
        folder: The run's folder, without a checkpoint to resume from.
        overwrite: Whether another run in the folder may be replaced.
        resumes: Whether ``--ckpt_path last`` is given; a run without a checkpoint then starts again.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise UserError(f"{folder}: expected a folder, but this is a file; give another --name")
    names = [str(path.relative_to(folder)) for path in sorted(folder.rglob("*")) if not path.is_dir()]
    if foreign := [name for name in names if not _WRITTEN.fullmatch(name)]:
        raise UserError(f"{folder} holds {foreign[0]}, which lgx did not write; move it away, or give another --name")
    has_run = any(name.endswith(".ckpt") or name == "results.csv" for name in names)
    is_finished = SUMMARY in names or any(name.endswith(LEARNGENE) for name in names)
    if (is_finished or (has_run and not resumes)) and not overwrite:
        raise UserError(
            f"{folder} already holds a run: --ckpt_path last resumes it, --overwrite replaces it, "
            f"--name or --seed_everything starts another"
        )


def recover(folder: Path) -> None:
    """Put back a run that was moved aside; finish an interrupted deletion, also after a killed process.

    Args:
        folder: The run's folder, whose lock this process holds.
    """
    folder = folder.resolve()
    for trash in folder.parent.glob(f"{glob.escape(_aside(folder).name)}.*tmp"):
        shutil.rmtree(trash, ignore_errors=True)
    aside = _aside(folder)
    if aside.is_dir():
        shutil.rmtree(folder, ignore_errors=True)
        aside.rename(folder)


def _aside(folder: Path) -> Path:
    """The place of a moved folder; while it is deleted, a unique part and ``.tmp`` follow its name."""
    return folder.with_name(f".{folder.name}.old")
