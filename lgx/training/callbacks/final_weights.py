"""What callbacks that average weights need: the network before their setup, and its final weights after a resume."""

from pathlib import Path

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.training.run_folder import FINAL


class BuildNetwork(Callback):
    """Build the network before the setup of the callbacks that follow."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Build it; Lightning's own call then finds it built."""
        pl_module.configure_model()


class FinalWeights(Callback):
    """Restore the final weights of a run whose training is done, before its learngene is saved and it is tested.

    Callbacks that average weights put the average into the network when training ends. A run that is resumed after that
    moment does not train, so that these callbacks do nothing, and its checkpoint holds the weights before averaging.

    Args:
        folder: The run's folder of checkpoints.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._trained = False

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Note that this process trains."""
        self._trained = True

    def on_fit_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Load the weights that a test of the last checkpoint would load."""
        if self._trained or trainer.ckpt_path is None:
            return
        final = self.folder / FINAL
        checkpoint = load_checkpoint(final if final.is_file() else trainer.ckpt_path)
        # Without final weights only Lightning's averaging callback, which keeps both, has changed the network.
        if final.is_file() or "current_model_state" in checkpoint:
            pl_module.load_state_dict(checkpoint["state_dict"])
