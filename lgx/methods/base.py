"""What all methods share: one step, metrics, optimizer, schedule, and what a checkpoint says of itself."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, cast

import numpy as np
import torch
from lightning.pytorch import LightningModule
from lightning.pytorch.cli import OptimizerCallable
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torchmetrics import Metric, MetricCollection

from data_modules.base import TaskDataModule
from lgx.architectures import (
    Architecture,
    GPT2Architecture,
    ViTArchitecture,
    name_of,
    parse_for,
    vit_only,
)
from lgx.artifacts.learngene import Learngene
from lgx.components.checkpoint_checks import check_resumable, seed_of
from lgx.components.losses import label_loss
from lgx.components.metrics import metrics_for, update_metrics
from lgx.components.mixup import make_mixup
from lgx.components.optim import parameter_groups
from lgx.components.sharding import ShardedStrategy, check_sharding_strategy
from lgx.core.batch import Batch, Kind, Task
from lgx.core.rows import Evaluation
from lgx.errors import UserError

SchedulerCallable = Callable[[Optimizer, int], LRScheduler]
"""(optimizer, total steps) -> scheduler that is stepped after every update."""


class Method(LightningModule, ABC):
    """Base of all methods.

    A subclass builds its network in :meth:`build_network` and names its losses in :meth:`training_losses`. Tags are
    the same for all: ``train/loss``, ``val/loss``, ``test/loss``, and for the task's metrics ``val/acc``, ``test/acc``,
    ``val/miou``, ..., see :mod:`lgx.components.metrics`.

    Args:
        arch: Architecture of the network: a name (``6-Small``) or a spec (``depth=6,embed_dim=384,num_heads=6``); for
            text ``6-GPT2`` or ``gpt2:depth=6,embed_dim=384,num_heads=6``.
        optimizer: Optimizer, e.g. ``torch.optim.AdamW`` with its learning rate. Vectors and embeddings never decay.
        scheduler: Learning-rate schedule, e.g. ``lgx.components.optim.WarmupCosine``; none keeps the rate constant.
        num_classes: Number of classes; the data module gives it.
        kind: What is predicted; the data module gives it.
        label_smoothing: Label smoothing ε of the cross-entropy with labels.
        mixup: Mixup's α; 0 is off (timm's Mixup).
        cutmix: CutMix's α; 0 is off.
        drop_path_rate: Stochastic depth of an image model's last layer, rising linearly from 0.
        dropout: Share of embeddings, attention weights and residual updates that a text model drops; 0.1 in GPT-2.
        compile: Compile the network with torch.compile; worth it for long runs.
        label: Name in results, where runs of one method are variants of it, e.g. ``tal_plus``; else the method's own.
    """

    network: nn.Module
    architecture: Architecture
    reads_text: bool = False  # whether it knows text models too
    varying_graph: bool = False  # whether a step may leave some of the parameters without a gradient
    shards: bool = False  # whether the network is one of its architecture, whose layers processes may share
    trains: ClassVar[Literal["descendant", "ancestor", "learngene"]] = "learngene"  # what a run of it trains
    teacher_option: ClassVar[str | None] = None  # constructor argument that names the teacher
    evaluates_starts: bool = False  # whether what it evaluates are untrained descendants: epoch 0 in the results

    def __init__(
        self,
        arch: str,
        optimizer: OptimizerCallable,
        scheduler: SchedulerCallable | None = None,
        num_classes: int = 1000,
        kind: Kind = "classification",
        label_smoothing: float = 0.0,
        mixup: float = 0.0,
        cutmix: float = 0.0,
        drop_path_rate: float = 0.0,
        dropout: float = 0.0,
        compile: bool = False,
        label: str | None = None,
    ) -> None:
        super().__init__()
        if label is not None and not label.replace("_", "").isalnum():
            raise UserError(f"model.label: letters, digits and underscores, got {label!r}")
        self._label = label
        if not 0 <= label_smoothing < 1:
            raise UserError(f"model.label_smoothing: a share in [0, 1), got {label_smoothing}")
        architecture = parse_for(arch, kind, num_classes)
        if self.reads_text and type(self).make_architecture is Method.make_architecture:
            self.architecture = architecture
        else:
            self.architecture = self.make_architecture(vit_only(architecture, f"model {type(self).__name__}"))
        for option, rate, wanted in (("drop_path_rate", drop_path_rate, "image"), ("dropout", dropout, "text")):
            if not 0 <= rate < 1:
                raise UserError(f"model.{option}: a share in [0, 1), got {rate}")
            if rate and (kind == "text") != (wanted == "text"):
                raise UserError(
                    f"model.{option}: is for {wanted} models, not for {name_of(architecture)}; leave it at 0"
                )
        self.optimizer, self.scheduler = optimizer, scheduler
        self.label_smoothing, self.drop_path_rate, self.dropout = label_smoothing, drop_path_rate, dropout
        self.compile_network = compile
        self.mix = make_mixup(mixup, cutmix, label_smoothing, architecture)
        self.epochs_trained = 0
        self.weights_follow = False  # set where a checkpoint will be loaded: the start need not be computed
        self.task: Task | None = None
        self.tasks: dict[str, Task] = {}
        self._resumed_optimizers: list[str] | None = None
        self.eval_metrics = nn.ModuleDict()

    # -- what a subclass provides -------------------------------------------------------------------------------

    @property
    @abstractmethod
    def method(self) -> str:
        """Name of the method, e.g. ``sws``."""

    @abstractmethod
    def build_network(self) -> nn.Module:
        """Build the network to train; called once, when the task is known."""

    @abstractmethod
    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Named losses of one batch; ``loss`` is the one that is minimized, the others are logged beside it."""

    def make_architecture(self, architecture: ViTArchitecture) -> ViTArchitecture:
        """Turn the parsed ``arch`` into this method's own architecture; a method that does knows image models only."""
        return architecture

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene | None:
        """The learngene in a state dict of the network (names without ``network.``); None if the method has none."""
        return None

    @property
    def label(self) -> str:
        """Name in results: the variant's, where it was given one."""
        return self._label or self.method

    # -- the shared step ----------------------------------------------------------------------------------------

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of images (B, C, H, W) or token ids (B, N): (B, K), or (B, K, H, W) for segmentation."""
        return cast(Tensor, self.network(inputs))

    @property
    def drop_rate(self) -> float:
        """What regularizes the network: stochastic depth of an image model, dropout of a text model."""
        return self.dropout if isinstance(self.architecture, GPT2Architecture) else self.drop_path_rate

    def label_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy with labels: indices (B,) or (B, H, W), or shares (B, K) where mixup is on."""
        smoothing = 0.0 if targets.ndim == 2 else self.label_smoothing  # timm's Mixup smooths by itself
        return label_loss(logits.float(), targets, smoothing)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seed the step by (seed, epoch, batch, rank): a resumed run then draws what the first would have drawn."""
        parts = (seed_of(), self.current_epoch, batch_idx, self.global_rank)
        state = np.random.SeedSequence(parts).generate_state(2)
        torch.manual_seed(int(state[0]))
        np.random.seed(int(state[1]))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """One step on one batch."""
        if self.mix is not None:
            inputs, targets = self.mix(batch.inputs, batch.targets)
            batch = Batch(inputs, targets, batch.task)
        losses = self.training_losses(batch)
        for name, value in losses.items():
            self.log(f"train/{name}", value.detach(), prog_bar=name == "loss", batch_size=len(batch.inputs))
        return losses["loss"]

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Update the validation metrics."""
        self._evaluate(batch, "val")

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Update the test metrics."""
        self._evaluate(batch, "test")

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Class probabilities, (B, K).

        Raises:
            UserError: If the task is segmentation.
        """
        if self.architecture.kind == "segmentation":
            raise UserError("predict: writes one class per image, which segmentation has not; run `lgx test` instead")
        return cast(Tensor, self(batch.inputs).float().softmax(dim=-1))

    def evaluations(self, split: str) -> list[Evaluation]:
        """What evaluation measures."""
        return [Evaluation(self.task.name if self.task else "", name_of(self.architecture), split)]

    def metrics_of(self, split: str, suffix: str = "") -> MetricCollection:
        """The metrics of ``val`` or ``test``; ``suffix`` tells several architectures or tasks apart."""
        return cast(MetricCollection, self.eval_metrics[f"{split}_metrics{suffix}"])

    def tag(self, split: str, task: str) -> str:
        """Where a task's metrics are logged: under its own name where there are several."""
        return f"{split}/{task}" if len(self.tasks) > 1 else split

    def _update(self, split: str, logits: Tensor, targets: Tensor, suffix: str = "") -> dict[str, Metric]:
        return update_metrics(self.metrics_of(split, suffix), logits, targets)

    def _evaluate(self, batch: Batch, split: Literal["val", "test"]) -> None:
        main = self.task.metric if self.task else "acc"
        for name, metric in self._update(split, self(batch.inputs).float(), batch.targets).items():
            # Metric objects sum their states over ranks, so unequal shares count exactly.
            self.log(f"{split}/{name}", metric, prog_bar=name == main, on_step=False, on_epoch=True)

    # -- Lightning hooks ----------------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Learn the task from the data module and check that the architecture reads it.

        Raises:
            UserError: If what is predicted, classes, or image size and channels or vocabulary and longest text differ.
        """
        if self.varying_graph and isinstance(self.trainer.strategy, DDPStrategy):
            self.trainer.strategy._ddp_kwargs["find_unused_parameters"] = True  # it costs time, so only where needed
        task, own = self.data_module().task, self.architecture
        if own.kind != task.kind:
            raise UserError(f"model.kind: the network is for {own.kind}, but task {task.name} is {task.kind}")
        own.check_task(task, "model.arch")
        if self.mix is not None and self.data_module().batch_size % 2:
            raise UserError(f"data.batch_size: mixup needs an even number, got {self.data_module().batch_size}")
        self.task = task
        self.set_tasks(self.data_module().all_tasks)

    def set_tasks(self, tasks: dict[str, Task]) -> None:
        """Train and evaluate on these tasks, each by its name, and make their metrics.

        Raises:
            UserError: If one network cannot be for all of them.
        """
        assert self.task is not None
        if len({(task.kind, task.metric) for task in tasks.values()}) > 1:
            several = ", ".join(f"{name} ({task.kind}, {task.metric})" for name, task in tasks.items())
            raise UserError(
                f"data.tasks: {self.method} trains one network for tasks of one kind, but these are {several}"
            )
        self.tasks = {**tasks, self.task.name: self.task}
        self.eval_metrics = nn.ModuleDict({f"{split}_metrics": metrics_for(self.task) for split in ("val", "test")})

    def configure_model(self) -> None:
        """Build the network once; under ``trainer.strategy: sharded`` every process keeps a share of each layer.

        Raises:
            UserError: If the method's network cannot be sharded.
        """
        if hasattr(self, "network"):
            return
        if self._trainer is not None and self.task is None:  # Lightning's averaging of weights asks before setup
            Method.setup(self, str(self.trainer.state.fn))
        self.network = self.build_network()
        strategy = None if self._trainer is None else self.trainer.strategy
        check_sharding_strategy(strategy)
        if isinstance(strategy, ShardedStrategy):
            if not self.shards:
                raise UserError(f"trainer.strategy: the network of {self.method} cannot be sharded; use ddp")
            strategy.shard(self.network, self.architecture.layers)
        if self.compile_network:
            self.network.compile()

    def configure_optimizers(self) -> Any:
        """Optimizer over two groups (decay or not), schedule stepped after every update.

        Raises:
            UserError: If a run that goes on was trained with another optimizer.
        """
        optimizer = self.optimizer(self.trained_groups())
        name = type(optimizer).__name__
        if self._resumed_optimizers not in (None, [name]):
            raise UserError(
                f"--ckpt_path: the run was trained with {', '.join(self._resumed_optimizers)}, not {name}; "
                f"resume with the same optimizer"
            )
        if self.scheduler is None:
            return optimizer
        scheduler = self.scheduler(optimizer, self.total_steps())
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def trained_groups(self) -> list[dict[str, Any]]:
        """Parameter groups of the optimizer."""
        return parameter_groups(self.network)

    def total_steps(self) -> int:
        """Optimizer steps of the whole run, from the configuration alone.

        Lightning's ``estimated_stepping_batches`` is never asked: asking drops the loader's resume state.

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

    def on_train_epoch_end(self) -> None:
        """Count the epochs for the results' ``epochs`` column."""
        self.epochs_trained = self.current_epoch + 1

    def describe(self) -> dict[str, Any]:
        """What a checkpoint says of itself, in plain types."""
        return {
            "method": self.method,
            "architecture": self.architecture.to_dict(),
            "task": self.task.to_dict() if self.task else {},
            "epochs": self.epochs_trained,
        }

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Describe the network, so that other commands can rebuild it without this run's configuration."""
        # An epoch that has begun counts: 0 shall mean untrained, and nothing else.
        begun = self.current_epoch + 1 if self.trainer.state.fn == "fit" and self.global_step > 0 else 0
        optimizers = [type(optimizer).__name__ for optimizer in self.trainer.optimizers]
        epochs = max(begun, self.epochs_trained)
        checkpoint["lgx"] = {**self.describe(), "epochs": epochs, "optimizers": optimizers}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take over how long the network was trained.

        Raises:
            UserError: If the checkpoint is of another method or architecture.
        """
        about = checkpoint.get("lgx", {})
        check_resumable(about, self.method, self.architecture)
        self._resumed_optimizers = about.get("optimizers")  # checked when ours are made, which is later
        self.epochs_trained = int(about["epochs"])

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
