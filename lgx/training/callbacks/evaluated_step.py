"""Place the scores of a checkpoint on the curves of its run."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer


class EvaluatedStep(Callback):
    """Log what ``lgx test`` and ``lgx validate`` measure at the step and epoch of the checkpoint.

    Lightning logs it at step 0, where the run's curves show the untrained network.
    """

    def __init__(self) -> None:
        self.step = self.epoch = 0

    def on_load_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Note the step and the finished epochs of the checkpoint; a run that resumes restores its own."""
        if trainer.state.fn == "fit":
            return
        step, epoch = (checkpoint.get(key) for key in ("global_step", "epoch"))
        if isinstance(step, int) and isinstance(epoch, int):
            self.step, self.epoch = step, epoch

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Go on from the checkpoint."""
        self._place(trainer)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Go on from the checkpoint."""
        self._place(trainer)

    def _place(self, trainer: Trainer) -> None:
        if trainer.state.fn != "fit" and self.step:
            loop: Any = trainer.fit_loop  # its progress is what loggers read, and fit alone restores it
            loop.epoch_loop._batches_that_stepped = self.step
            loop.epoch_progress.current.completed = self.epoch
