"""Write the record of the run into its checkpoints."""

import platform
from functools import cache
from importlib.metadata import version
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.core.provenance import commit
from lgx.core.version import __version__
from lgx.training.contract import RECORD, RunRecord

PACKAGES = ("torch", "torchvision", "lightning", "timm", "torchmetrics", "jsonargparse")
"""Packages whose versions ``config.yaml`` and the record of a run name."""


@cache
def package_versions() -> dict[str, str]:
    """Versions of lgx, Python and the packages that results depend on."""
    versions = {package: version(package) for package in PACKAGES}
    return {"lgx": __version__, "python": platform.python_version(), **versions}


def code_versions() -> dict[str, str]:
    """Commit of lgx, and the versions of :func:`package_versions`."""
    return {"commit": commit(), **package_versions()}


class KeepContract(Callback):
    """Keep the record of the run in every checkpoint.

    Args:
        record: What identifies the run; on the first process it must be complete before training begins.
    """

    def __init__(self, record: RunRecord) -> None:
        self.record = record

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the record."""
        checkpoint[RECORD] = self.record.to_dict()
