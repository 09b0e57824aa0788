"""Continue the logs of a resumed run."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger

from lgx.training.loggers.shared_csv import drop_rows


class ContinueLogs(Callback):
    """Remove what a killed run has logged after its checkpoint, because the resumed run logs it again.

    Only files in CSV can be changed. The other programs show the later value of a step, or both.
    """

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Remove the rows from the checkpoint's step on."""
        step = checkpoint.get("global_step")
        if trainer.state.fn == "fit" and isinstance(step, int):
            for logger in trainer.loggers:
                if isinstance(logger, CSVLogger):
                    drop_rows(logger, step)
