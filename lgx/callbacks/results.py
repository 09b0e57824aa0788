"""Writing measured values as rows."""

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.callbacks.config import BEST
from lgx.callbacks.place import best_checkpoint, run_folder
from lgx.evaluation.results import Row, add_rows
from lgx.methods.base import Method, seed_of


class SaveResults(Callback):
    """Add a row per metric to ``results.csv`` in the run's folder after every validation and test."""

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Rows of the validation split."""
        self._save(trainer, pl_module, "val")

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The best validation score, for TensorBoard's HPARAMS tab."""
        best = best_checkpoint(trainer)
        if best is not None and best.best_model_score is not None:
            for logger in trainer.loggers:
                logger.log_metrics({BEST: float(best.best_model_score)}, step=trainer.global_step)

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Rows of the test split."""
        self._save(trainer, pl_module, "test")

    def _save(self, trainer: Trainer, method: LightningModule, split: str) -> None:
        folder = run_folder(trainer)
        if trainer.sanity_checking or folder is None or not trainer.is_global_zero:
            return
        if not isinstance(method, Method) or method.task is None:
            return
        # In fit, validation comes before the epoch is counted as ended.
        epochs = trainer.current_epoch + 1 if trainer.state.fn == "fit" else method.epochs_trained
        if method.evaluates_starts:
            epochs = 0
        rows = []
        for task, architecture, tag in method.evaluations(split):
            if f"{tag}/n" not in trainer.callback_metrics:
                continue  # limit_val_batches left nothing of this task
            values = {name: float(trainer.callback_metrics[f"{tag}/{name}"]) for name in ("acc", "loss", "n")}
            rows += [
                Row(
                    method=method.method,
                    architecture=architecture,
                    task=task,
                    split=split,
                    epochs=epochs,
                    metric=metric,
                    value=values[metric],
                    seed=seed_of(),
                    n=int(values["n"]),
                    run=str(folder),
                )
                for metric in ("acc", "loss")
            ]
        add_rows(folder / "results.csv", rows)
