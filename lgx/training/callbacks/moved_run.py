"""Find the best checkpoint of a run whose folder was copied or moved."""

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint

from lgx.training.run_folder import run_folder


class FollowMovedRun(Callback):
    """Let a resumed run know its best checkpoint in the present folder.

    Lightning stores absolute paths, and forgets the best score if the folder is another one.
    """

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Replace the former folder in the paths, if the checkpoint and the best one lie in the present folder."""
        folder, states = run_folder(trainer), checkpoint["callbacks"]
        if folder is None or folder.resolve() not in Path(str(trainer.ckpt_path)).resolve().parents:
            return
        for callback in trainer.checkpoint_callbacks:
            state = states.get(callback.state_key)
            if not isinstance(callback, ModelCheckpoint) or not state or not callback.dirpath:
                continue
            now = str(callback.dirpath)
            former = state.get("dirpath", now)
            if former != now and (Path(now) / Path(state["best_model_path"]).name).is_file():
                states[callback.state_key] = _moved(state, former, now)


def _moved(value: Any, former: str, now: str) -> Any:
    """A state with other paths."""
    if isinstance(value, dict):
        return {_moved(key, former, now): _moved(part, former, now) for key, part in value.items()}
    if isinstance(value, str) and (value == former or value.startswith(f"{former}/")):
        return now + value.removeprefix(former)
    return value
