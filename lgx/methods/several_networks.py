"""Evaluation of several networks that one run trains, each under its own tags."""

from abc import abstractmethod
from typing import Literal

import torch
from torch import Tensor

from lgx.components.metrics import metric_names, metrics_for, was_measured
from lgx.core.batch import Batch
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.methods.base import Method


class SeveralNetworks(Method):
    """Evaluates several networks on one task. The best checkpoint is that of the average over the networks."""

    @property
    @abstractmethod
    def measured_names(self) -> list[str]:
        """The names of the measured networks in tags."""

    @abstractmethod
    def measured_logits(self, index: int, inputs: Tensor) -> Tensor:
        """Logits (B, K) of one of the measured networks."""

    def set_tasks(self, tasks: dict[str, Task]) -> None:
        """See :class:`~lgx.methods.base.Method`; each measured network has its metrics.

        Raises:
            UserError: If there are several tasks.
        """
        if len(tasks) > 1:
            raise UserError(
                f"data.tasks: model {type(self).__name__} needs one task, but these are {', '.join(tasks)}; name one"
            )
        super().set_tasks(tasks)
        assert self.task is not None
        for split in ("val", "test"):
            for index in range(len(self.measured_names)):
                self.eval_metrics[f"{split}_metrics_{index}"] = metrics_for(self.task, split)

    def evaluate_batch(self, batch: Batch, split: Literal["val", "test"]) -> None:
        """Evaluate every measured network on one batch."""
        for index, network in enumerate(self.measured_names):
            logits = self.measured_logits(index, batch.inputs)
            self.measure_logits(split, logits, batch.targets, f"{split}/{network}", f"_{index}")

    def log_averages(self, split: str) -> None:
        """Log the averages over the measured networks."""
        assert self.task is not None
        metrics = [self.metrics_of(split, f"_{index}") for index in range(len(self.measured_names))]
        if all(map(was_measured, metrics)):
            for name in metric_names(self.task):
                average = torch.stack([each[name].compute() for each in metrics]).mean()
                self.log(f"{split}/{name}", average, prog_bar=name == self.task.metric)
