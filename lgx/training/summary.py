"""Save the cost of a finished run."""

import json
from pathlib import Path

import torch
from lightning.pytorch import Trainer

import lgx
from lgx.core.files import atomic_path
from lgx.core.provenance import commit, hardware

SUMMARY = "summary.json"
"""File in the run's folder; only a finished run has it."""


def write_summary(folder: Path, trainer: Trainer, seconds: float) -> None:
    """Write ``summary.json`` into the run's folder.

    Args:
        folder: The run's folder.
        trainer: The trainer that has finished.
        seconds: Wall time of this process with its tests; of a resumed run only the part since it was resumed.
    """
    summary = {
        "lgx_version": lgx.__version__,
        "torch_version": str(torch.__version__),
        "commit": commit(),
        "device": hardware(trainer.strategy.root_device.type == "cuda"),
        "processes": trainer.world_size,
        "precision": trainer.precision,
        "epochs": trainer.current_epoch,
        "steps": trainer.global_step,
        "seconds": round(seconds, 1),
    }
    with atomic_path(folder / SUMMARY) as temporary:
        temporary.write_text(json.dumps(summary, indent=2) + "\n")
