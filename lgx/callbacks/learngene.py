"""Writing the learngene when training ends."""

import dataclasses
from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.learngene import SUFFIX, load_checkpoint
from lgx.methods.base import Method


class SaveLearngene(Callback):
    """Write ``best.learngene.safetensors`` into the run's folder, from the best checkpoint where there is one."""

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Take the network of the best checkpoint, or the present one, and save its learngene."""
        if not trainer.is_global_zero or trainer.fast_dev_run or not isinstance(pl_module, Method):
            return
        best = getattr(trainer.checkpoint_callback, "best_model_path", "")
        state = load_checkpoint(best)["state_dict"] if best and Path(best).is_file() else pl_module.state_dict()
        prefix = "network."
        learngene = pl_module.learngene(
            {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
        )
        if learngene is None:
            return
        score = getattr(trainer.checkpoint_callback, "best_model_score", None)
        metrics = {str(trainer.checkpoint_callback.monitor): float(score)} if score is not None else {}
        task = pl_module.task.to_dict() if pl_module.task else {}
        path = Path(trainer.log_dir or trainer.default_root_dir) / f"best{SUFFIX}"
        dataclasses.replace(learngene, task=task, metrics=metrics).save(path)
        print(f"learngene  {path}")
