"""Evaluation of one network on its tasks: metrics, tags, predictions."""

from abc import ABC, abstractmethod
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

import torch
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torchmetrics import Metric, MetricCollection

from lgx.architectures import Architecture, full_name, parse_for
from lgx.components.class_metrics import NO_NUMBERS
from lgx.components.features import Probe, frozen_features
from lgx.components.metrics import metric_names, update_metrics
from lgx.core.batch import Batch
from lgx.core.rows import Evaluation
from lgx.core.task import Kind, Task
from lgx.errors import UserError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class EvaluatedModule(LightningModule, ABC):
    """Validation, test and prediction steps of a method.

    Attributes:
        network: The network.
        task: The task of the data module; a summary of several tasks. None before the data module is known.
        tasks: Every task by its name.
        eval_metrics: Metrics of ``val`` and ``test``.
        evaluates_with_teacher: Whether evaluation compares with the teacher, which must then be loaded.
        probe: Probe that a test measures instead of the metrics, or None.
        probed: Features (B, T) and labels (B,) of the test batches, for the probe.
    """

    network: nn.Module
    evaluates_with_teacher: bool = False
    probed: list[tuple[Tensor, Tensor]]

    def __init__(self) -> None:
        super().__init__()
        self.task: Task | None = None
        self.tasks: dict[str, Task] = {}
        self.eval_metrics = nn.ModuleDict()
        self.probe: Probe | None = None

    @property
    @abstractmethod
    def architecture(self) -> Architecture:
        """Architecture of the network."""

    def validated_as(self, task: Task) -> Task:
        """The task with the main metric of validation; by default the task's."""
        return task

    def with_run_weights(self, folder: Path) -> dict[str, "Figure"]:
        """Measure the run's weights after training. Called on every process.

        Returns:
            Figures by name, which are drawn on the first process.
        """
        return {}

    def conclusions(self) -> list[str]:
        """Sentences on the results of a finished run, for its last lines."""
        return []

    def figures(self) -> dict[str, "Figure"]:
        """Figures of the network after a validation, by name. Called on every process, drawn on the first."""
        return {}

    def on_validation_start(self) -> None:
        """Measure in full precision."""
        # Lightning converts metrics with the network, and sums stop at 256 in bfloat16.
        metrics = (module for module in self.modules() if isinstance(module, Metric))
        states = chain(*(metric.metric_state.values() for metric in metrics))
        if any(isinstance(state, Tensor) and state.dtype in (torch.float16, torch.bfloat16) for state in states):
            cast(Any, self).set_tasks(self.tasks)
            self.to(self.device)

    def on_test_start(self) -> None:
        """Measure in full precision, and reset metrics that Lightning does not reset because they are not logged."""
        self.on_validation_start()
        for collection in self.eval_metrics.values():
            for name, metric in cast(MetricCollection, collection).items(keep_base=True):
                if name in NO_NUMBERS:
                    metric.reset()

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Update the validation metrics."""
        self.evaluate_batch(batch, "val")

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Update the test metrics, or keep the features for the probe."""
        if self.probe is None:
            self.evaluate_batch(batch, "test")
        else:
            self.probed.append((self.features(batch.inputs).cpu(), batch.targets.cpu()))

    def features(self, images: Tensor) -> Tensor:
        """Features of images (B, C, H, W) before the head, (B, T), float32, without gradient."""
        return frozen_features(self.network, images)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Logits, (B, K), float32."""
        refuse_parts(self.architecture.kind)
        return cast(Tensor, self(batch.inputs).float())

    def evaluate_batch(self, batch: Batch, split: Literal["val", "test"]) -> None:
        """Update and log the metrics of one batch."""
        main = self.task.metric if self.task else "acc"
        self.measure_logits(split, self(batch.inputs), batch.targets, split, shown=main)

    def on_validation_epoch_end(self) -> None:
        """Log the averages, which choose the best checkpoint."""
        self.log_averages("val")

    def on_test_epoch_end(self) -> None:
        """Log the averages."""
        self.log_averages("test")

    def log_averages(self, split: str) -> None:
        """Log averages over the evaluated networks and tasks; by default there is one of each."""

    def evaluations(self, split: str) -> list[Evaluation]:
        """The evaluated networks and tasks."""
        return [Evaluation(self.task.name if self.task else "", full_name(self.architecture), split)]

    def evaluated(self, evaluation: Evaluation) -> Architecture:
        """The architecture of an evaluated network, or what is built and counted like one."""
        task = self.tasks[evaluation.task]
        return parse_for(evaluation.architecture, task.kind, task.num_classes)

    def classifiers(self) -> dict[str, Evaluation]:
        """The tested networks by their names; none if two have one name, or if one predicts no class of an example."""
        networks = self.evaluations("test")
        named = {
            each.name: each
            for each in networks
            if f"test_metrics{each.suffix}" in self.eval_metrics
            and self.tasks[each.task].is_labeled
            and self.tasks[each.task].kind not in _PARTS
        }
        return named if len(named) == len(networks) else {}

    def reported_metrics(self, task: Task, split: str) -> list[str]:
        """Names of the values that an evaluation reports for a task."""
        return metric_names(task, split) if self.probe is None else [self.probe.metric]

    def metrics_of(self, split: str, suffix: str = "") -> MetricCollection:
        """The metrics of ``val`` or ``test``; ``suffix`` distinguishes architectures or tasks."""
        return cast(MetricCollection, self.eval_metrics[f"{split}_metrics{suffix}"])

    def measure_logits(
        self, split: str, logits: Tensor, targets: Tensor, tag: str, suffix: str = "", shown: str = ""
    ) -> None:
        """Update and log the metrics of a split with logits (B, K) and targets of a batch; the bar has ``shown``."""
        for name, metric in update_metrics(self.metrics_of(split, suffix), logits.float(), targets).items():
            # Metric objects sum their states over ranks, so unequal shares count exactly.
            self.log(f"{tag}/{name}", metric, prog_bar=name == shown, on_step=False, on_epoch=True)

    def tag(self, split: str, task: str) -> str:
        """Tag of a task's metrics: under its name if there are several tasks."""
        return f"{split}/{task}" if len(self.tasks) > 1 else split


_PARTS: dict[Kind, str] = {"segmentation": "pixel", "language": "token"}
"""Parts of an example that have a class each."""


def refuse_parts(kind: Kind) -> None:
    """Refuse to predict for segmentation and language."""
    part = _PARTS.get(kind)
    if part:
        raise UserError(f"predict: writes one class per example, but {kind} has one per {part}; run `lgx test` instead")
