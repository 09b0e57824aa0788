"""The folder of a run: where it lies, which of its checkpoints is meant, and the cost of the finished run."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jsonargparse import Namespace
from lightning.pytorch import Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from data_modules.loading.fingerprint import fingerprint_of_names
from lgx.artifacts.checkpoints import BEST as BEST
from lgx.artifacts.checkpoints import FINAL as FINAL
from lgx.artifacts.checkpoints import LAST as LAST
from lgx.artifacts.checkpoints import SUMMARY as SUMMARY
from lgx.artifacts.checkpoints import load_checkpoint, weights_of_run
from lgx.artifacts.learngene import SUFFIX
from lgx.core.provenance import commit, hardware
from lgx.core.schema import LINE, MAPPING, at_most, check_fields
from lgx.core.seed import seed_of
from lgx.core.task import Task
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.training.loggers import RunPlace
from lgx.training.same_run import RunIdentity, identity_of

_COUNT = at_most(2**62)
_FIELDS = {"pytorch-lightning_version": LINE, "state_dict": MAPPING, "lgx": MAPPING, "callbacks": MAPPING}
_FIELDS |= {"global_step": _COUNT, "epoch": _COUNT}


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that a command loads.

    Attributes:
        path: The file.
        step: Number of steps that are done.
        identity: What identifies the run that wrote it; None if unknown.
    """

    path: str
    step: int
    identity: RunIdentity | None

    def is_in(self, folder: Path) -> bool:
        """Whether it belongs to the run in this folder."""
        return folder.resolve() in Path(self.path).resolve().parents


def run_place(config: Namespace) -> RunPlace:
    """The run's place, ``<runs_dir>/<experiment>/<name>/seed<k>``, as a parsed configuration gives it."""
    name = config.name or str(config.model.class_path).rsplit(".", 1)[-1].lower()
    return RunPlace(str(Path(config.runs_dir) / config.experiment), name, f"seed{seed_of(config.seed_everything)}")


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
    if "://" in name:
        raise UserError(f"--ckpt_path {name}: only local files are read; download it first")
    path = name
    if name in ("best", "last"):
        found = _own(folder / "checkpoints", command, name, overwrite)
        if found is None:
            return None
        path = str(found)
    content = load_checkpoint(path)
    _check(content, f"--ckpt_path {path}")
    return Checkpoint(path, content["global_step"], identity_of(content, path))


def _check(content: dict[str, Any], place: str) -> None:
    """Refuse what no run of lgx wrote. Whatever else does not suit is found while it is restored, see ``Resume``."""
    needed = _FIELDS.keys() if "optimizer_states" in content else _FIELDS.keys() - {"callbacks"}  # of final.ckpt
    if not needed <= content.keys():
        raise UserError(f"{place}: not a checkpoint of an lgx run")
    about = check_fields(content, _FIELDS, f"{place}: is damaged")["lgx"]
    check_fields(about, {"method": LINE, "epochs": _COUNT}, f"{place}: is damaged", complete=True)


def _own(folder: Path, command: str, name: str, overwrite: bool) -> Path | None:
    """The run's own checkpoint of that name; None where ``fit`` starts the run."""
    file = folder / f"{name}.ckpt"
    if name == "last" and command != "fit" and (folder / FINAL).is_file():
        return folder / FINAL
    if file.is_file():
        return file
    if command != "fit" or name != "last":
        raise UserError(f"--ckpt_path {name}: {file} does not exist; run `lgx fit` with this configuration")
    best = folder / BEST
    # A run that is killed between its first validation and its first last.ckpt has a best.ckpt of epoch 0.
    if best.is_file() and not overwrite and (epoch := load_checkpoint(best).get("epoch")) != 0:
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
    return _learngene(folder).is_file() or summary.get("learngene") is False


def _learngene(folder: Path) -> Path:
    return folder / f"best{SUFFIX}"


def _classes(tasks: Mapping[str, Task]) -> dict[str, int]:
    """Number of classes of each task whose examples have one class each, which gives its chance level."""
    others = ("segmentation", "multilabel")
    return {name: task.num_classes for name, task in tasks.items() if task.is_labeled and task.kind not in others}


def write_summary(
    folder: Path, trainer: Trainer, seconds: float, start_flops: float, health: dict[str, Any], weights: str
) -> None:
    """Write ``summary.json`` into the run's folder.

    Args:
        folder: The run's folder.
        trainer: The trainer that has finished.
        seconds: Wall time of this process with its tests; of a resumed run only the part since it was resumed.
        start_flops: FLOPs that the start of the network took.
        health: What :class:`~lgx.training.callbacks.health.TrainingHealth` has measured.
        weights: Whether the run's weights are its ``best`` or its ``last`` ones.
    """
    data: Any = trainer.datamodule  # type: ignore[attr-defined]
    named = [(name, task) for name, task in data.all_tasks.items() if task.class_names]
    summary = {
        "lgx_version": __version__,
        "torch_version": str(torch.__version__),
        "commit": commit(),
        "device": hardware(trainer.strategy.root_device.type == "cuda"),
        "processes": trainer.world_size,
        "precision": trainer.precision,
        "epochs": trainer.current_epoch,
        "steps": trainer.global_step,
        "seconds": round(seconds, 1),
        "start_flops": start_flops,
        "classes": _classes(data.all_tasks),
        "outputs": {name: task.num_classes for name, task in data.all_tasks.items()},
        "class_fingerprints": {name: fingerprint_of_names(task.class_names) for name, task in named},
        "learngene": _learngene(folder).is_file(),
        "weights": weights,
        "health": health,
    }
    with atomic_path(folder / SUMMARY) as temporary:
        temporary.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
