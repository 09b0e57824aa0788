"""Continue the logs of a resumed run."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import CSVLogger

from lgx.core.rows import keep_rows
from lgx.training.loggers.shared_csv import drop_rows
from lgx.training.run_folder import run_folder


class ContinueLogs(Callback):
    """Remove what a run has logged after its checkpoint, because the resumed run logs it again, or ends earlier.

    Only files in CSV can be changed, ``results.csv`` among them. The other programs show the later value of a step, or
    both.
    """

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Remove the rows from the checkpoint's step on, and the results of later epochs."""
        step, epochs = checkpoint.get("global_step"), checkpoint.get("lgx", {}).get("epochs")
        if trainer.state.fn != "fit":
            return
        folder = run_folder(trainer)
        if folder is not None and trainer.is_global_zero and isinstance(epochs, int):
            keep_rows(folder / "results.csv", lambda row: row.epochs <= epochs)
        if isinstance(step, int):
            for logger in trainer.loggers:
                if isinstance(logger, CSVLogger):
                    drop_rows(logger, step)
