"""The folder of a run: its place, its checkpoints, its summary, and what ``lgx fit`` may do with its earlier run."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jsonargparse import Namespace
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from data_modules.loading.fingerprint import fingerprint_of_names
from lgx.artifacts.checkpoints import FINAL, LAST, SUMMARY, load_checkpoint, weights_of_run
from lgx.artifacts.source_names import FINAL_LEARNGENE, LEARNGENE
from lgx.core.provenance import commit, hardware
from lgx.core.schema import LINE, MAPPING, NUMBER, at_most, check_fields
from lgx.core.seed import seed_of
from lgx.core.task import Task, ignored_target
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.training.same_run import RunIdentity, check_same, identity_of

_COUNT = at_most(2**62)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that a command loads.

    Attributes:
        path: The file.
        identity: What identifies the run that wrote it; None for final weights alone.
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


def find_checkpoint(folder: Path, command: str, name: str | None, untrained: bool = False) -> Checkpoint | None:
    """The checkpoint that a command is to load, checked.

    Args:
        folder: The run's folder.
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        name: Value of ``--ckpt_path``: ``best`` and ``last`` are this run's, anything else is a file; None evaluates
            the run's weights, see :func:`~lgx.artifacts.checkpoints.weights_of_run`.
        untrained: Whether an evaluation without a checkpoint is wanted.

    Returns:
        The checkpoint; None for none. ``last`` of a run that has no checkpoint yet starts it, so that a job which is
        requeued needs one command line only.
    """
    if name is None and (command == "fit" or untrained):
        return None
    path = folder / "checkpoints" / f"{name}.ckpt"
    if name is None:
        if not path.parent.is_dir():
            raise UserError(
                f"{folder}: no run is there; train it with `lgx fit`, or give --ckpt_path, or --untrained for its start"
            )
        path = Path(weights_of_run(str(folder)))
    elif name not in ("best", "last"):
        path = Path(name)
    if path.name == LAST and command != "fit" and path.with_name(FINAL).is_file():
        path = path.with_name(FINAL)
    elif name in ("best", "last") and not path.is_file():
        if name == "last" and command == "fit":
            return None
        raise UserError(f"--ckpt_path {name}: {path} does not exist; run `lgx fit` with this configuration")
    content = load_checkpoint(path)
    if not {"pytorch-lightning_version", "state_dict", "lgx"} <= content.keys():
        raise UserError(f"--ckpt_path {path}: not a checkpoint of an lgx run")
    damaged = f"--ckpt_path {path}: is damaged"
    about = check_fields(content, {"state_dict": MAPPING, "lgx": MAPPING, "epoch": _COUNT}, damaged)["lgx"]
    check_fields(about, {"method": LINE, "epochs": _COUNT}, damaged, complete=True)
    check_fields(about, {"start_flops": NUMBER}, damaged)
    return Checkpoint(str(path), identity_of(content, path), about)


def is_complete(folder: Path) -> bool:
    """Whether a run has finished and its files are still there."""
    try:
        summary = json.loads((folder / SUMMARY).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return (folder / FINAL_LEARNGENE).is_file() or summary.get("learngene") is False


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
        "learngene": (folder / FINAL_LEARNGENE).is_file(),
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
    """What ``lgx fit`` may do with a run folder, whose lock it holds: start a run, resume its run, or replace it.

    As a callback it deletes the files of a run that is replaced, when the new run is built and its training begins.

    Args:
        folder: The run's folder.
        resumes: Whether ``--ckpt_path last`` is given.
        overwrite: Whether another run in the folder may be replaced.
        writes: Whether this process writes to the folder; only the first process of a run does.
    """

    def __init__(self, folder: Path, resumes: bool, overwrite: bool, writes: bool) -> None:
        self.folder = folder
        self.resumes = resumes
        self.overwrite = overwrite
        self.writes = writes
        self.resumed: RunIdentity | None = None
        self._outdated: dict[Path, int] = {}  # time of the last change of each
        self._is_unchanged = False

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
                summary = self.folder / SUMMARY
                self._outdated = _changed([summary]) if self.writes and summary.exists() else {}
                return checkpoint
            checkpoint = None
        elif checkpoint is not None and checkpoint.identity is not None:
            start = f"--model.initializer Pretrained --model.initializer.source {checkpoint.path}"
            check_same(checkpoint.identity, now, checkpoint.path, f"give these, or start from its weights: {start}")
        if self.writes:
            self._outdated = _changed(files_of_run(self.folder))
            names = [path.name for path in self._outdated]
            has_run = any(name.endswith(".ckpt") or name == "results.csv" for name in names)
            is_finished = any(name == SUMMARY or name.endswith(LEARNGENE) for name in names)
            if (is_finished or (has_run and not self.resumes)) and not self.overwrite:
                raise UserError(
                    f"{self.folder} already holds a run: --ckpt_path last resumes it, --overwrite replaces it, "
                    f"--name or --seed_everything starts another"
                )
            for option, file in inputs:
                if self.folder.resolve() in file.resolve().parents:
                    belongs = f"{file} belongs to the run that --overwrite replaces"
                    raise UserError(f"{option}: {belongs}; copy it, or give --name")
        return checkpoint

    def _may_resume(self, record: RunIdentity | None, now: RunIdentity) -> bool:
        """Whether the folder's run continues with this configuration; False if it will be replaced."""
        if record is None:
            return True
        try:
            options, code = check_same(record, now, str(self.folder))
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

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Delete the files of the run that is replaced, or the summary of the run that continues.

        A logger of the new run may have begun to write to a file of the earlier one.
        """
        for file, changed in self._outdated.items():
            if file.lstat().st_mtime_ns == changed:
                file.unlink()
        self._outdated = {}

    on_test_start = on_fit_start  # of the start, before training


def _changed(files: Iterable[Path]) -> dict[Path, int]:
    return {file: file.lstat().st_mtime_ns for file in files}


def files_of_run(folder: Path) -> list[Path]:
    """What lgx, Lightning or a logger has written into a run's folder."""
    files = [path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()]
    return [path for path in files if _WRITTEN.fullmatch(str(path.relative_to(folder)))]
