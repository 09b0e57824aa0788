"""Save the cost of a finished run."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.pytorch import Trainer

from lgx.artifacts.learngene import SUFFIX
from lgx.core.provenance import commit, hardware
from lgx.core.task import Task
from lgx.core.version import __version__
from lgx.host.files import atomic_path

SUMMARY = "summary.json"
"""File in the run's folder; only a finished run has it."""


def is_complete(folder: Path) -> bool:
    """Whether a run has finished and its files are still there.

    Args:
        folder: The run's folder.
    """
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


def write_summary(folder: Path, trainer: Trainer, seconds: float, start_flops: float, health: dict[str, Any]) -> None:
    """Write ``summary.json`` into the run's folder.

    Args:
        folder: The run's folder.
        trainer: The trainer that has finished.
        seconds: Wall time of this process with its tests; of a resumed run only the part since it was resumed.
        start_flops: FLOPs that the start of the network took.
        health: What :class:`~lgx.training.callbacks.TrainingHealth` has measured.
    """
    data: Any = trainer.datamodule  # type: ignore[attr-defined]
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
        "learngene": _learngene(folder).is_file(),
        "health": health,
    }
    with atomic_path(folder / SUMMARY) as temporary:
        temporary.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
