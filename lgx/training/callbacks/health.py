"""Watch training: losses that are not finite, the gradient norm, what callbacks watch, and the wall time."""

import time
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from lgx.core.readable import lower_is_better
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.training.lightning_internals import callbacks_of


class TrainingHealth(Callback):
    """End training at a loss that is not finite, log the gradient norm, and measure the wall time.

    The processes compare their losses every ``log_every_n_steps`` steps and before every checkpoint, so that a GPU does
    not wait at every step.
    """

    def __init__(self) -> None:
        self._started = time.perf_counter()

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check what the callbacks watch."""
        _check_modes(trainer)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Log the norm of the gradient before it is clipped, in the logged steps."""
        if not _is_logged(trainer, trainer.global_step + 1):
            return
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if gradients:
            norm = get_total_norm(gradients)
            pl_module.log("train/gradient_norm", norm.full_tensor() if isinstance(norm, DTensor) else norm)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *batch: Any) -> None:
        """Compare the losses of a logged step, and of the last one of an epoch."""
        if trainer.is_last_batch or _is_logged(trainer, trainer.global_step):
            self._compare(trainer, pl_module)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Compare before a checkpoint is written, so that no damaged checkpoint replaces a healthy one."""
        self._compare(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compare once more, if ``max_steps`` has ended the run within an epoch."""
        self._compare(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        """The wall time."""
        return {"seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue a resumed run."""
        self._started = time.perf_counter() - float(state_dict["seconds"])

    @property
    def seconds(self) -> float:
        """Wall time of the run, s; of a resumed run with the time until its checkpoint."""
        return time.perf_counter() - self._started

    def _compare(self, trainer: Trainer, method: LightningModule) -> None:
        """Raise a UserError on the first process, SystemExit on the others, if one process has a wrong loss."""
        losses = method.step_losses if isinstance(method, Method) else {}
        wrong = [f"train/{name}" for name, loss in losses.items() if not loss.isfinite().all()]
        if not trainer.strategy.reduce_boolean_decision(bool(wrong), all=False):
            return
        if not trainer.is_global_zero:
            raise SystemExit(2)
        where = " and ".join(wrong) or "a loss on another process"
        raise UserError(
            f"step {trainer.global_step}: not finite: {where}; lower model.optimizer.lr, clip gradients with "
            "trainer.gradient_clip_val or use another trainer.precision"
        )


def _is_logged(trainer: Trainer, step: int) -> bool:
    every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
    return every > 0 and step % every == 0


def _check_modes(trainer: Trainer) -> None:
    """Refuse a callback that takes the worst for the best, or would never stop the run.

    Lightning refuses one that watches what a validation does not measure.
    """
    for callback in callbacks_of(trainer, Callback):
        monitor, mode = getattr(callback, "monitor", None), getattr(callback, "mode", None)
        if isinstance(callback, EarlyStopping) and str(monitor).startswith("val/") and not trainer.limit_val_batches:
            raise UserError("early_stop: this run validates nothing; leave it out, or hold out images to validate")
        best = "min" if lower_is_better(str(monitor)) else "max"
        if isinstance(monitor, str) and mode in ("min", "max") and mode != best:
            raise UserError(
                f"trainer.callbacks: {type(callback).__name__} watches {monitor} with mode {mode}, but {best} is the "
                f"best; give mode {best}"
            )
