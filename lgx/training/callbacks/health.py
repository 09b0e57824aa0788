"""Watch training: the first loss that is not finite, the first and last loss, the gradient norm."""

import math
import time
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.callbacks import EarlyStopping
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.nn.utils import get_total_norm
from torch.optim import Optimizer

from lgx.core.readable import lower_is_better
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.training.lightning_internals import callbacks_of


class TrainingHealth(Callback):
    """End training at the first loss that is not finite; log the gradient norm.

    The processes compare their losses every ``log_every_n_steps`` steps and before every checkpoint, so that a GPU does
    not wait at every step. The message still names the first such step.

    Attributes:
        report: The measured values, for ``summary.json``.
    """

    def __init__(self) -> None:
        self.report: dict[str, Any] = {}
        self._started = time.perf_counter()
        self._noted: list[tuple[int, str, Tensor]] = []  # step, name and value of the losses since the last comparison

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check what the callbacks watch."""
        _check_modes(trainer)

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Optimizer) -> None:
        """Log the norm of the gradient before it is clipped, in the logged steps; record that of the first step."""
        is_logged = _is_logged(trainer, trainer.global_step + 1)
        if trainer.global_step and not is_logged:
            return
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if gradients:
            norm = get_total_norm(gradients)
            norm = norm.full_tensor() if isinstance(norm, DTensor) else norm
            self.report["gradient_norm"] = norm
            if is_logged:
                pl_module.log("train/gradient_norm", norm)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *batch: Any) -> None:
        """Note the losses of the step.

        Raises:
            UserError: On the first process, if a loss is not finite on one of the processes.
            SystemExit: Then on the others.
        """
        if not isinstance(pl_module, Method):
            return
        step = trainer.global_step
        self._noted += [(step, name, loss) for name, loss in pl_module.step_losses.items()]
        if "loss" in pl_module.step_losses:
            self.report["loss_at_end"] = pl_module.step_losses["loss"]
            self.report.setdefault("loss_at_start", self.report["loss_at_end"])
        if trainer.is_last_batch or _is_logged(trainer, step):
            self._compare(trainer)

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Compare before a checkpoint is written, so that no damaged checkpoint replaces a healthy one."""
        self._compare(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compare once more, if ``max_steps`` has ended the run within an epoch."""
        self._compare(trainer)

    def state_dict(self) -> dict[str, Any]:
        """The values so far, as numbers, and the wall time."""
        return {"report": self.numbers(), "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue a resumed run."""
        self.report = {name: value for name, value in state_dict["report"].items() if value is not None}
        self._started = time.perf_counter() - float(state_dict.get("seconds", 0.0))

    @property
    def seconds(self) -> float:
        """Wall time of the run, s; of a resumed run with the time until its checkpoint."""
        return time.perf_counter() - self._started

    def numbers(self) -> dict[str, Any]:
        """The values as plain numbers; None where one is not finite."""
        values = {name: float(value) for name, value in self.report.items()}
        return {name: value if math.isfinite(value) else None for name, value in values.items()}

    def _compare(self, trainer: Trainer) -> None:
        finite = [loss.isfinite().all().to(trainer.strategy.root_device) for *_, loss in self._noted]
        is_finite = torch.stack(finite).tolist() if finite else []  # one wait for the device
        wrong = [(step, name) for (step, name, _), fine in zip(self._noted, is_finite, strict=True) if not fine]
        if not trainer.strategy.reduce_boolean_decision(bool(wrong), all=False):
            self._noted = []
            return
        if not trainer.is_global_zero:
            raise SystemExit(2)
        step = wrong[0][0] if wrong else trainer.global_step
        names = [f"train/{name}" for first, name in wrong if first == step]
        where = " and ".join(names) or "a loss on another process"
        raise UserError(
            f"step {step}: not finite: {where}; lower model.optimizer.lr, clip gradients with "
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
