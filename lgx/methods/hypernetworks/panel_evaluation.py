"""Evaluation of a hypernetwork: a fixed panel of architectures with predicted parameters, without training."""

from functools import cached_property
from itertools import product
from typing import Literal, cast

import torch
from torch import Tensor

from lgx.architectures import Architecture, ViTArchitecture, full_name, name_of, parse_like
from lgx.components.metrics import was_measured
from lgx.core.batch import Batch
from lgx.core.rows import Evaluation
from lgx.core.task import shared_metric
from lgx.errors import UserError
from lgx.hypernet import Hypernet, functional_forward
from lgx.methods.base import Method


def make_panel(option: str, texts: tuple[str, ...], base: Architecture) -> list[Architecture]:
    """The architectures of a panel.

    Args:
        option: Name of the option, for messages.
        texts: Names or specs.
        base: Gives classes and the size of the inputs.
    """
    members: list[Architecture] = []
    for text in texts:
        try:
            member = parse_like(text, base)
        except UserError as error:
            raise UserError(f"model.{option}: {error}") from error
        what, one, other = ("texts", "max_len", "vocab_size")
        if isinstance(base, ViTArchitecture):
            what, one, other = ("images", "img_size", "in_chans")
        if any(getattr(member, key) != getattr(base, key) for key in (one, other)):
            raise UserError(f"model.{option}: {text} has other {what} than model.arch; leave out {one} and {other}")
        members.append(member)
    if not members or len({name_of(member) for member in members}) < len(members):
        raise UserError(f"model.{option}: expected at least one architecture, without repetition")
    return members


class PanelEvaluation(Method):
    """Evaluates untrained descendants: every architecture of a panel on every task.

    Attributes:
        panel: Names or specs of the architectures that validation evaluates.
        test_panel: Those that the test evaluates.
    """

    evaluates_starts = True
    panel: tuple[str, ...]
    test_panel: tuple[str, ...]
    _predicted: tuple[dict[str, Tensor], ...] = ()
    _predicted_for: tuple[str, str] | None = None

    @cached_property
    def panels(self) -> dict[str, list[Architecture]]:
        """The architectures that validation and test evaluate."""
        base = self.architecture
        return {"val": make_panel("panel", self.panel, base), "test": make_panel("test_panel", self.test_panel, base)}

    @property
    def hypernet(self) -> Hypernet:
        """The network that is trained."""
        return cast(Hypernet, self.network)

    def task_embedding(self, task: str) -> Tensor | None:
        """The embedding of a task that the hypernetwork reads, (T,); None without task information."""
        return None

    def evaluations(self, split: str) -> list[Evaluation]:
        """Every architecture of the panel on every task, each under its own tags."""
        return [
            Evaluation(task, full_name(architecture), f"{self.tag(split, task)}/{name_of(architecture)}")
            for task, architecture in product(self.tasks, self.panels[split])
        ]

    def evaluate_batch(self, batch: Batch, split: Literal["val", "test"]) -> None:
        """Test every architecture of the panel, with predicted parameters, on one batch."""
        if self._predicted_for != (split, batch.task):  # batches are grouped by task
            self._predict_panel(split, batch.task)
        number = list(self.tasks).index(batch.task)
        tag = self.tag(split, batch.task)
        for i, (architecture, parameters) in enumerate(zip(self.panels[split], self._predicted, strict=True)):
            logits = functional_forward(architecture, parameters, batch.inputs)
            self.measure_logits(split, logits, batch.targets, f"{tag}/{name_of(architecture)}", f"_{number}_{i}")

    def _predict_panel(self, split: str, task: str) -> None:
        classes = self.tasks[task].num_classes
        embedding = self.task_embedding(task)
        self._predicted = ()  # frees the dense weights of one panel before the next
        descendants = [architecture.replace(num_classes=classes) for architecture in self.panels[split]]
        with torch.no_grad():
            self._predicted = tuple(self.hypernet.predict(descendant, embedding) for descendant in descendants)
        self._predicted_for = split, task

    def on_validation_epoch_start(self) -> None:
        """Predict again: the hypernetwork was trained since the last validation, or a test has another one."""
        self._predicted_for = None

    on_test_epoch_start = on_validation_epoch_start

    def log_averages(self, split: str) -> None:
        """Log the mean over tasks and panel."""
        self._predicted, self._predicted_for = (), None  # training does not need these dense weights
        means = []
        for number, (name, task) in enumerate(self.tasks.items()):
            metrics = [self.metrics_of(split, f"_{number}_{i}") for i in range(len(self.panels[split]))]
            if not all(map(was_measured, metrics)):
                continue
            means.append(torch.stack([m[task.metric].compute() for m in metrics]).mean())
            if len(self.tasks) > 1:
                self.log(f"{self.tag(split, name)}/{task.metric}", means[-1])
        if means:
            self.log(f"{split}/{shared_metric(self.tasks.values())}", torch.stack(means).mean(), prog_bar=True)
