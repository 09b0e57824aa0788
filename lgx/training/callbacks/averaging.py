"""Averages of weights: when they begin, and which runs they cannot end."""

from itertools import chain
from typing import cast

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import StochasticWeightAveraging, Timer, WeightAveraging

from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.training.lightning_internals import averaged_model


class BeginAveraging(Callback):
    """Let an average be the weights themselves until its first update; refuse an average that the run would not have.

    Lightning's average is the start's weights until then: they would be validated, and saved by a run that ends early.

    Args:
        average: The averaging callback, which comes after this one.
    """

    def __init__(self, average: WeightAveraging | StochasticWeightAveraging) -> None:
        self.average, self._has_begun = average, False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Build the network, which Lightning's averaging over epochs needs in its own setup."""
        pl_module.configure_model()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check that the average has an update, and that training ends where Lightning takes it."""
        assert isinstance(pl_module, Method)
        name, steps = f"trainer.callbacks: {type(self.average).__name__}", pl_module.known_steps()
        epochs = -(-steps // _steps_of_epoch(trainer)) if steps is not None else None
        if isinstance(self.average, StochasticWeightAveraging):
            callbacks = trainer.callbacks  # type: ignore[attr-defined]
            may_stop = trainer.early_stopping_callbacks or any(isinstance(callback, Timer) for callback in callbacks)
            if may_stop or epochs is None or epochs != trainer.max_epochs or steps != epochs * _steps_of_epoch(trainer):
                raise UserError(
                    f"{name} takes its average after the last of trainer.max_epochs; leave out early_stop, "
                    f"trainer.max_steps, trainer.max_time and EarlyStopping"
                )
            begins = self.average.swa_start < epochs
        else:
            updates, by_epoch = self.average.should_update, range(epochs or 0)
            begins = steps is None or any(map(updates, range(steps))) or any(updates(epoch_idx=k) for k in by_epoch)
        if not begins:
            raise UserError(
                f"{name} begins after the {steps} steps ({epochs} epochs) of this run; let it begin earlier"
            )

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *args: object) -> None:
        """Follow the weights until the first update, which copies them, too."""
        average = None if self._has_begun else averaged_model(self.average)
        if average is None or average.n_averaged:  # asking waits for the device, so that it ends with the first update
            self._has_begun = True
        else:
            copies = chain(average.module.parameters(), average.module.buffers())
            for copy, original in zip(copies, chain(pl_module.parameters(), pl_module.buffers()), strict=True):
                copy.data.copy_(original.data)


def _steps_of_epoch(trainer: Trainer) -> int:
    batches = cast(int, trainer.num_training_batches)
    return -(-batches // trainer.accumulate_grad_batches)
