"""Count what a run costs, while it runs."""

import math
from contextlib import ExitStack
from resource import RUSAGE_SELF, getrusage
from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.utils.flop_counter import FlopCounterMode

from lgx.core.batch import Batch
from lgx.core.flops import flop_counter
from lgx.methods.base import Method
from lgx.training.step_flops import StepFlops, size_of


class CountCosts(Callback):
    """Count the FLOPs and the examples of all training steps of all processes.

    Torch counts some steps as they run; the others are estimated from these, see :mod:`lgx.training.step_flops`. FLOPs
    are those of matrix products, two per multiply-accumulate: of forward and backward passes, and of a teacher.

    Attributes:
        flops: FLOPs of the steps: of this process, at the end of training of all on the first process. NaN for a
            compiled network, whose kernels torch does not count.
        examples: Training examples likewise.
    """

    def __init__(self) -> None:
        self.flops = 0.0
        self.examples = 0
        self._steps = StepFlops()
        self._kind = ("", torch.Size())
        self._counting = ExitStack()
        self._counter: FlopCounterMode | None = None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Continue the sums of a checkpoint on the first process."""
        assert isinstance(pl_module, Method)
        self._keep_on_first(trainer)
        if pl_module.compile_network:
            self.flops = math.nan

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Batch, batch_idx: int) -> None:
        """Begin to count the step if it is due."""
        self._counting.close()
        self._counter = None
        self._kind = (batch.task, batch.inputs.shape)
        if not math.isnan(self.flops) and self._steps.is_due(self._kind):
            self._counter = self._counting.enter_context(flop_counter())

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Add the step."""
        assert isinstance(pl_module, Method)
        self._counting.close()
        self.examples += len(batch.inputs)
        if math.isnan(self.flops):
            return
        size = size_of(pl_module.drawn)
        if self._counter is None:
            self.flops += self._steps.expected(self._kind, size)
        else:
            flops = float(self._counter.get_total_flops())
            self._steps.add(self._kind, size, flops)
            self.flops += flops

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Stop counting."""
        self._counting.close()

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the sums over all processes."""
        flops, examples = self._sums(trainer)
        checkpoint["callbacks"][self.state_key] = {"flops": flops, "examples": examples}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue the sums of a resumed run."""
        self.flops = state_dict["flops"]
        self.examples = state_dict["examples"]

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Add up all processes."""
        self.flops, self.examples = self._sums(trainer)
        self._keep_on_first(trainer)

    def _keep_on_first(self, trainer: Trainer) -> None:
        if not trainer.is_global_zero:
            self.flops = 0.0
            self.examples = 0

    def numbers(self) -> dict[str, float | None]:
        """The sums, after training; None where nothing was counted."""
        return {"flops": None if math.isnan(self.flops) else self.flops, "examples": self.examples}

    def _sums(self, trainer: Trainer) -> tuple[float, int]:
        if trainer.world_size == 1:
            return self.flops, self.examples
        mine = torch.tensor([self.flops, self.examples], dtype=torch.float64, device=trainer.strategy.root_device)
        flops, examples = trainer.strategy.reduce(mine, reduce_op="sum").tolist()
        return flops, round(examples)


def peak_bytes(device: torch.device) -> int:
    """The most memory that this process has held: on a GPU its tensors', otherwise all of the process."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return getrusage(RUSAGE_SELF).ru_maxrss * 1024
