"""Which part of a loss moves the network: the norm of each part's own gradient."""

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor
from torch.nn.utils import get_total_norm

from lgx.components.sharding import ShardedStrategy
from lgx.errors import UserError
from lgx.methods.base import Method


class GradientNorms(Callback):
    """Log the norm of the gradient of each part of the loss as ``gradients/<part>``, before it is weighted and clipped.

    Add it with ``--trainer.callbacks+=GradientNorms``. A step that is logged has one more backward pass for each part.
    With several processes it is the mean of their norms. The training itself stays the same, bit for bit.

    Args:
        every_n_steps: Steps from one measurement to the next.

    Raises:
        UserError: If ``every_n_steps`` is less than 1.
    """

    def __init__(self, every_n_steps: int = 50) -> None:
        if every_n_steps < 1:
            raise UserError(f"GradientNorms.every_n_steps: expected at least 1, got {every_n_steps}")
        self.every_n_steps = every_n_steps

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Refuse networks that processes share.

        Raises:
            UserError: If no process holds whole parameters.
        """
        if isinstance(trainer.strategy, ShardedStrategy):
            raise UserError("trainer.callbacks: GradientNorms needs whole parameters; leave it out or use ddp")

    def on_before_backward(self, trainer: Trainer, pl_module: LightningModule, loss: Tensor) -> None:
        """Measure the parts of the step's loss; its own backward pass follows."""
        if not isinstance(pl_module, Method) or (trainer.global_step + 1) % self.every_n_steps:
            return
        parameters = [parameter for parameter in pl_module.parameters() if parameter.requires_grad]
        for name, part in pl_module.step_losses.items():
            if name == "loss" or not part.requires_grad:
                continue
            gradients = torch.autograd.grad(part, parameters, retain_graph=True, allow_unused=True)
            norm = get_total_norm([gradient for gradient in gradients if gradient is not None])
            mean = trainer.strategy.reduce(norm, reduce_op="mean")
            for logger in trainer.loggers:  # `log` would repeat the value in all steps until the next measurement
                logger.log_metrics({f"gradients/{name}": float(mean)}, step=trainer.global_step)
