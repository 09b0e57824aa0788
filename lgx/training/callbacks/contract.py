"""Write the record of the run into its checkpoints."""

import platform
from dataclasses import replace
from importlib.metadata import version
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

import lgx
from data_modules.base import TaskDataModule
from lgx.core.provenance import commit
from lgx.training.contract import RECORD, RunRecord

PACKAGES = ("torch", "torchvision", "lightning", "timm", "torchmetrics", "jsonargparse")
"""Packages whose versions ``config.yaml`` and the record of a run name."""


def package_versions() -> dict[str, str]:
    """Versions of lgx, Python and the packages that results depend on."""
    versions = {package: version(package) for package in PACKAGES}
    return {"lgx": lgx.__version__, "python": platform.python_version(), **versions}


def code_versions() -> dict[str, str]:
    """Commit of lgx, and the versions of :func:`package_versions`."""
    return {"commit": commit(), **package_versions()}


class KeepContract(Callback):
    """Keep the record of the run in every checkpoint.

    Args:
        record: What identifies the run, without its data.
    """

    def __init__(self, record: RunRecord) -> None:
        self.record = record

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Complete the record, when the data module has read its splits."""
        module = getattr(trainer, "datamodule", None)
        if stage == "fit" and isinstance(module, TaskDataModule):
            batch = module.batch_size * trainer.world_size
            self.record = replace(self.record, data=module.fingerprint(), batch=batch)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the record."""
        checkpoint[RECORD] = self.record.to_dict()
