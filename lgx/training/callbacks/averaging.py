"""What Lightning's callbacks that average weights need to begin, to resume exactly, and to end."""

from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import StochasticWeightAveraging

from lgx.artifacts.checkpoints import load_checkpoint
from lgx.training.lightning_internals import averaging_schedule, begin_averaging
from lgx.training.run_folder import FINAL


class BuildNetwork(Callback):
    """Build the network before the setup of the callbacks that follow."""

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Build it; Lightning's own call then finds it built."""
        pl_module.configure_model()


class ResumeAveraging(Callback):
    """Continue Lightning's averaging of weights over epochs exactly.

    Lightning's callback makes its schedule of learning rates when an epoch starts, so that a run which resumes within
    an epoch trains the rest of it without schedule, and making it changes the rates.

    Args:
        average: Lightning's callback, which comes before this one.
    """

    def __init__(self, average: StochasticWeightAveraging) -> None:
        self.average = average
        self._saved: dict[str, Any] | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Make the schedule of a resumed run, and restore its state and its rates."""
        if self._saved is None:
            return
        schedule: Any = begin_averaging(self.average, trainer, pl_module)
        schedule.load_state_dict(self._saved["schedule"])
        for group, rate in zip(schedule.optimizer.param_groups, self._saved["rates"], strict=True):
            group["lr"] = rate
        self._saved = None

    def state_dict(self) -> dict[str, Any]:
        """Schedule and rates, once averaging has begun."""
        schedule = averaging_schedule(self.average)
        if schedule is None:
            return {}
        rates = [float(group["lr"]) for group in schedule.optimizer.param_groups]
        return {"schedule": schedule.state_dict(), "rates": rates}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep them until training starts."""
        self._saved = state_dict or None


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
