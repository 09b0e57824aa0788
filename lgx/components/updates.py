"""The gradient of an update as the mean over its examples, and which steps log their losses."""

from dataclasses import dataclass, field
from typing import Any

import torch
from lightning.pytorch import Trainer
from torch import Tensor, nn

from lgx.components.losses import may_be_unknown
from lgx.core.task import IGNORE, Kind, ignored_target


def mean_of_examples(losses: Tensor, targets: Tensor) -> Tensor:
    """Mean of the losses of examples (B,), weighted by the number of labeled pixels or known labels."""
    if not may_be_unknown(targets):
        return losses.mean()
    labeled = (targets != IGNORE).flatten(1).sum(dim=1).to(losses.dtype)
    return (losses * labeled).sum() / labeled.sum().clamp(min=1)


@dataclass
class UpdateMean:
    """Makes the gradient of an update the mean over its examples, or over its known pixels, labels or tokens.

    Lightning weights each batch by 1 / ``accumulate_grad_batches``, and all processes equally. This is the mean only if
    an update has this number of batches, and all batches have the same number of labels. But the last update of an
    epoch may have fewer batches, and batches may have different numbers of known pixels, labels or tokens.
    """

    _weights: list[Tensor] = field(default_factory=list, init=False)
    _is_complete: bool = field(default=False, init=False)

    def weighted(self, loss: Tensor, targets: Tensor, trainer: Trainer, batch_idx: int, kind: Kind) -> Tensor:
        """The mean loss of a batch in proportion to its labels.

        Args:
            loss: Mean over the labels, scalar.
            targets: The batch's targets, (B, …).
            trainer: The trainer.
            batch_idx: Number of the batch in its epoch.
            kind: Kind of its task.
        """
        self._is_complete = trainer.is_last_batch or (batch_idx + 1) % trainer.accumulate_grad_batches == 0
        ignored = ignored_target(kind)
        weight = loss.new_ones((), dtype=torch.float) if ignored is None else targets.ne(ignored).float().mean()
        self._weights.append(weight)
        return loss if ignored is None else loss * weight

    def correct(self, network: nn.Module, trainer: Trainer, kinds: set[Kind]) -> None:
        """Divide the gradients of a complete update by the sum of its weights, not by the number of its batches.

        Args:
            network: Its parameters have the gradients.
            trainer: The trainer, after the backward pass of a batch.
            kinds: Kinds of the tasks: processes compare their weights where parts of targets may be unknown.
        """
        if not self._is_complete:
            return
        weights = self._weights
        self._weights = []
        total: Any = len(weights)
        if any(ignored_target(kind) is not None for kind in kinds):
            total = float(trainer.strategy.reduce(torch.stack(weights).sum(), reduce_op="mean"))
        if total and total != trainer.accumulate_grad_batches:
            for parameter in network.parameters():
                if parameter.grad is not None:
                    parameter.grad.mul_(trainer.accumulate_grad_batches / total)


def losses_may_be_read(trainer: Any) -> bool:
    """Whether a logger or callback may read the losses of this step; logging takes a percent of a small step."""
    step = trainer.global_step + 1
    every = trainer.log_every_n_steps
    if trainer.is_last_batch or trainer.should_stop or step == trainer.max_steps or (every and step % every == 0):
        return True
    names = [(type(c).__module__, f"{vars(c).get('monitor')} {vars(c).get('filename')}") for c in trainer.callbacks]
    return any(not module.startswith(("lgx.", "lightning.")) or "train/" in name for module, name in names)
