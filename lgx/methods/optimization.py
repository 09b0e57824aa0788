"""Optimization: optimizer, learning-rate schedule, number of steps, seed of each step."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from data_modules.base import TaskDataModule
from lgx.components.optim import fuse, parameter_groups
from lgx.core.batch import Batch
from lgx.core.seed import run_seed
from lgx.errors import UserError
from lgx.host.failures import blame

SchedulerCallable = Callable[[Optimizer, int], LRScheduler]
"""(optimizer, total steps) -> scheduler that is stepped after every update."""

_REFUSED = "model.optimizer or model.scheduler: a value is refused"


class OptimizedModule(LightningModule):
    """How a method's network is optimized.

    Attributes:
        network: What is trained.
        optimizer: Parameter groups -> optimizer.
        scheduler: (optimizer, total steps) -> schedule; None keeps the learning rate constant.
        step_losses: The named losses of the last training step; with their graphs until its backward pass has ended.
        resumed_optimizers: Class names of the optimizers of the checkpoint that the run resumes from.
    """

    network: nn.Module
    optimizer: OptimizerCallable
    scheduler: SchedulerCallable | None
    step_losses: dict[str, Tensor]
    resumed_optimizers: list[str] | None = None

    def __init__(self) -> None:
        super().__init__()
        self.step_losses = {}

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seed the step by (seed, epoch, batch, rank), so that a resumed run draws the same random numbers."""
        parts = (run_seed(), self.current_epoch, batch_idx, self.global_rank)
        state = np.random.SeedSequence(parts).generate_state(2)
        _seed_torch(int(state[0]))
        np.random.seed(int(state[1]))

    def on_after_backward(self) -> None:
        """Let go of the step's graph."""
        self.step_losses = {name: loss.detach() for name, loss in self.step_losses.items()}

    def configure_optimizers(self) -> Any:
        """Optimizer over two groups (with and without weight decay); the schedule is stepped after every update.

        Raises:
            UserError: If the run is resumed with another optimizer, or one of its options is refused.
        """
        groups = self.trained_groups()
        with blame(_REFUSED):
            optimizer = self.optimizer(groups)
        if self.trainer.precision != "16-mixed":  # Lightning does not clip the gradients of fused optimizers there
            fuse(optimizer)
        name = type(optimizer).__name__
        if self.resumed_optimizers not in (None, [name]):
            raise UserError(
                f"--ckpt_path: the run was trained with {', '.join(self.resumed_optimizers)}, not {name}; "
                f"resume with the same optimizer"
            )
        if self.scheduler is None:
            return optimizer
        steps = self.total_steps()
        with blame(_REFUSED):
            scheduler = self.scheduler(optimizer, steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def trained_groups(self) -> list[dict[str, Any]]:
        """Parameter groups of the optimizer."""
        return parameter_groups(self.network)

    def total_steps(self) -> int:
        """Optimizer steps of the whole run, from the configuration alone.

        Lightning's ``estimated_stepping_batches`` is not used: reading it drops the loader's resume state.

        Raises:
            UserError: If neither ``trainer.max_steps`` nor ``trainer.max_epochs`` gives an end.
        """
        total = self.known_steps()
        if total is None:
            raise UserError("trainer.max_epochs or trainer.max_steps: a schedule needs to know when the run ends")
        return total

    def known_steps(self) -> int | None:
        """Optimizer steps of the whole run; None where only time or the user ends it."""
        trainer = self.trainer
        limits = []
        if trainer.max_steps > 0:
            limits.append(int(trainer.max_steps))
        if trainer.max_epochs is not None and trainer.max_epochs > 0:
            batches = self.data_module().train_dataloader().epoch_length
            limits.append(int(trainer.max_epochs) * -(-batches // trainer.accumulate_grad_batches))
        return min(limits, default=None)

    def data_module(self) -> TaskDataModule:
        """The trainer's data module.

        Raises:
            UserError: If the trainer was given bare loaders, or a data module without a task.
        """
        module = getattr(self.trainer, "datamodule", None)
        if module is None:
            raise UserError("data: a method learns its task from a data module; give one with --data")
        if not isinstance(module, TaskDataModule):
            raise UserError(
                f"data: {type(module).__name__} gives no task; derive it from data_modules.TaskDataModule, not only "
                "from LightningDataModule"
            )
        return module


def _seed_torch(seed: int) -> None:
    """Seed torch's generators of the devices in use.

    ``torch.manual_seed`` also remembers the seed for a GPU that may come later, with a formatted traceback, which takes
    a millisecond of each step.
    """
    torch.default_generator.manual_seed(seed)
    if torch.cuda.is_initialized():
        torch.cuda.manual_seed_all(seed)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(seed)
