"""Test the features of a network with a probe, in place of its head."""

from typing import Any

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import Tensor

from data_modules.base import TaskDataModule
from lgx.components.probes import Probe
from lgx.components.sharding import ShardedStrategy
from lgx.core.batch import Batch
from lgx.errors import UserError
from lgx.methods.base import Method


class RunProbe(Callback):
    """Fit a probe to the features of the training images, and measure its accuracy on the test images.

    The training images are read as in evaluation: each once, without augmentation. The accuracy is logged as
    ``test/knn_acc`` or ``test/linear_acc``, with the number of test images ``test/n``.

    Args:
        probe: The probe.
    """

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self._known: tuple[Tensor, Tensor] = (torch.empty(0), torch.empty(0))

    def check(self, method: Method, data: TaskDataModule) -> None:
        """Refuse what has no features of whole images with a class."""
        name, task = f"--probe {self.probe.name}", data.task
        if task.kind != "classification":
            raise UserError(f"{name}: tells classes of whole images apart, but task {task.name} is {task.kind}")
        if len(data.all_tasks) > 1:
            raise UserError(f"{name}: reads one data set, but there are {', '.join(data.all_tasks)}; name one")
        if not method.plain_network:
            raise UserError(
                f"{name}: the network of {method.method} is not the one of its architecture; write a descendant with "
                f"`lgx init`, and test that with --model Finetune"
            )

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Read the training images; let the method give features in place of metrics."""
        if isinstance(trainer.strategy, ShardedStrategy):
            raise UserError(f"--probe {self.probe.name}: does not run with trainer.strategy sharded; use ddp")
        assert isinstance(pl_module, Method)
        trainer.datamodule.setup("fit")  # type: ignore[attr-defined]
        pl_module.probe = self.probe

    def on_test_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Compute the features of the training images."""
        assert isinstance(pl_module, Method)
        data: TaskDataModule = trainer.datamodule  # type: ignore[attr-defined]
        features, labels = [], []
        with torch.no_grad(), trainer.precision_plugin.test_step_context():
            for batch in data.reference_dataloader(self.probe.most):
                moved: Batch = trainer.strategy.batch_to_device(trainer.precision_plugin.convert_input(batch))
                features.append(pl_module.features(moved.inputs).cpu())
                labels.append(moved.targets.cpu())
        self._known = torch.cat(features), torch.cat(labels)
        pl_module.probed = []

    def on_test_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Fit the probe on the first process, with the features of all, and log its accuracy."""
        assert isinstance(pl_module, Method)
        features, labels = zip(*pl_module.probed, strict=True)
        shares = _of_all((*self._known, torch.cat(features), torch.cat(labels)), trainer.world_size)
        known, known_labels, tested, tested_labels = (torch.cat(parts) for parts in zip(*shares, strict=True))
        result: Any = None
        if trainer.is_global_zero:
            try:
                result = self.probe.accuracy(known, known_labels, tested, tested_labels)
            except UserError as error:  # all processes end with it
                result = str(error)
        result = trainer.strategy.broadcast(result)
        if isinstance(result, str):
            raise UserError(result)
        pl_module.log(f"test/{self.probe.metric}", result, rank_zero_only=True)
        pl_module.log("test/n", float(len(tested)), rank_zero_only=True)


def _of_all(tensors: tuple[Tensor, ...], processes: int) -> list[tuple[Tensor, ...]]:
    """The tensors of every process, whose lengths may differ."""
    if processes == 1:
        return [tensors]
    gathered: list[Any] = [None] * processes
    torch.distributed.all_gather_object(gathered, tensors)
    return gathered
