"""Save the learngene when training ends."""

import dataclasses
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import SUFFIX
from lgx.methods.base import Method
from lgx.training.run_folder import best_checkpoint, run_folder


class SaveLearngene(Callback):
    """Save ``best.learngene.safetensors`` in the run's folder: of the best checkpoint, if the method wants it.

    Attributes:
        best_progress: Epochs and steps of training of the best checkpoint; None where there is none.
    """

    best_progress: tuple[int, int] | None = None

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the learngene of the best checkpoint, or of the last weights."""
        folder = run_folder(trainer)
        if not trainer.is_global_zero or folder is None or not isinstance(pl_module, Method):
            return
        state, metrics = pl_module.state_dict(), {}
        best = best_checkpoint(trainer)
        if best is not None and Path(best.best_model_path).is_file():
            checkpoint = load_checkpoint(best.best_model_path)
            self.best_progress = checkpoint["lgx"]["epochs"], checkpoint["global_step"]
            state = checkpoint["state_dict"] if pl_module.learngene_of_best else state
            if best.best_model_score is not None and pl_module.learngene_of_best:
                metrics = {str(best.monitor): float(best.best_model_score)}
        prefix = "network."
        learngene = pl_module.learngene(
            {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
        )
        if learngene is not None:
            task = learngene.task or (pl_module.task.to_dict() if pl_module.task else {})
            path = folder / f"best{SUFFIX}"
            complete = dataclasses.replace(learngene, task=task, metrics=metrics)
            complete.save(path)
            print(f"{complete.describe()}\n  file      {path}")
