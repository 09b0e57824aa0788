"""Save the learngene when training ends."""

import dataclasses

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import SUFFIX
from lgx.methods.base import Method
from lgx.training.callbacks.run_weights import RunWeights
from lgx.training.run_folder import run_folder


class SaveLearngene(Callback):
    """Save ``best.learngene.safetensors`` in the run's folder, from the run's weights.

    Args:
        weights: What has put them into the network.
    """

    def __init__(self, weights: RunWeights) -> None:
        self.weights = weights

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the learngene of the run's weights."""
        folder = run_folder(trainer)
        if not trainer.is_global_zero or folder is None or not isinstance(pl_module, Method):
            return
        prefix, path = "network.", self.weights.path
        state = pl_module.state_dict() if path is None else load_checkpoint(path)["state_dict"]
        learngene = pl_module.learngene(
            {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
        )
        if learngene is not None:
            task = learngene.task or (pl_module.task.to_dict() if pl_module.task else {})
            path = folder / f"best{SUFFIX}"
            complete = dataclasses.replace(learngene, task=task, metrics=self.weights.metrics)
            complete.save(path)
            print(f"{complete.describe()}\n  file      {path}")
