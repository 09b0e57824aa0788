"""What all methods share: one step, metrics, optimizer, schedule, and what a checkpoint says of itself."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast

from lightning.pytorch.cli import OptimizerCallable
from lightning.pytorch.strategies import DDPStrategy
from torch import Tensor, nn

from lgx.architectures import Architecture, parse_for
from lgx.artifacts.learngene import Learngene
from lgx.components.checkpoint_checks import check_resumable
from lgx.components.losses import label_loss
from lgx.components.metrics import metrics_for
from lgx.components.mixup import make_mixup
from lgx.components.sharding import ShardedStrategy, check_sharding_strategy
from lgx.components.teacher import Teacher, TeacherRequest
from lgx.core.batch import Batch
from lgx.core.names import check_label
from lgx.core.task import Kind, Task
from lgx.errors import UserError
from lgx.methods.cost_probe import CostProbe
from lgx.methods.evaluation import EvaluatedModule
from lgx.methods.optimization import OptimizedModule, SchedulerCallable
from lgx.methods.options import check_kind, check_share
from lgx.methods.spec import MethodSpec
from lgx.methods.teaching import load_teacher

if TYPE_CHECKING:
    from matplotlib.figure import Figure


Trained = Literal["descendant", "ancestor", "learngene"]
"""What a run trains; a network from which a learngene is taken counts as ``learngene``."""


class Method(OptimizedModule, EvaluatedModule, ABC):
    """Base of all methods.

    A subclass sets ``spec``, builds its network in :meth:`build_network` and names its losses in
    :meth:`training_losses`. All methods log the same tags: ``train/loss``, ``val/loss``, ``test/loss``, and the task's
    metrics as ``val/acc``, ``test/acc``, ``val/miou``, ..., see :mod:`lgx.components.metrics`.

    Args:
        arch: Architecture of the network: a name (``6-Small``) or a spec (``depth=6,embed_dim=384,num_heads=6``); for
            text ``6-GPT2`` or ``gpt2:depth=6,embed_dim=384,num_heads=6``.
        optimizer: Optimizer, e.g. ``torch.optim.AdamW`` with its learning rate. Weight decay leaves out vectors and
            embeddings.
        scheduler: Learning-rate schedule, e.g. ``WarmupCosine``; none keeps the rate constant.
        num_classes: Number of classes; the data module gives it.
        kind: What is predicted; the data module gives it.
        label_smoothing: Label smoothing ε of the cross-entropy with labels.
        mixup: Mixup's α; 0 is off (timm's Mixup).
        cutmix: CutMix's α; 0 is off.
        drop_path_rate: Stochastic depth of an image model's last layer, rising linearly from 0.
        dropout: Share of embeddings, attention weights and residual updates that a text model drops; 0.1 in GPT-2.
        compile: Compile the network with torch.compile; worth it for long runs.
        label: Name in results for a variant of the method, e.g. ``tal_plus``; by default the method's own name.

    Attributes:
        spec: The method's declaration.
        teacher_option: Constructor argument that names the teacher; None for a method without teacher.
        shards: Whether processes may share the network's layers.
        plain_network: Whether the trained network is one of its architecture, so that a checkpoint can be read as a
            pretrained network.
        evaluates_starts: Whether evaluation measures untrained descendants: epoch 0 in the results.
        trains: What a run trains.
        varying_graph: Whether a step may leave some of the parameters without a gradient.
        start_flops: FLOPs that the start of the network took, e.g. of a prediction or of importances.
        teacher: The frozen network that the loss compares with; loaded for training, None without one.
    """

    spec: ClassVar[MethodSpec]
    teacher_option: ClassVar[str | None] = None
    shards: ClassVar[bool] = False
    plain_network: ClassVar[bool] = False
    evaluates_starts: ClassVar[bool] = False
    trains: ClassVar[Trained] = "learngene"
    varying_graph: bool = False
    start_flops: float = 0.0

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
        check_label(label, "model.label")
        for option, share in (
            ("label_smoothing", label_smoothing), ("drop_path_rate", drop_path_rate), ("dropout", dropout),
        ):  # fmt: skip
            check_share(option, share)
        self._label = label
        self.parsed_architecture = parse_for(arch, kind, num_classes)
        check_kind(type(self).__name__, self.spec.kinds, self.parsed_architecture.kind)
        for option, rate, of_text in (("drop_path_rate", drop_path_rate, False), ("dropout", dropout, True)):
            if rate and (kind == "text") != of_text:
                wanted = "text" if of_text else "image"
                raise UserError(f"model.{option}: expected 0, because only {wanted} models have it")
        self.optimizer, self.scheduler = optimizer, scheduler
        self.label_smoothing, self.drop_path_rate, self.dropout = label_smoothing, drop_path_rate, dropout
        self.compile_network = compile
        self.mix = make_mixup(mixup, cutmix, label_smoothing, self.parsed_architecture)
        self.epochs_trained = 0
        self.weights_follow = False  # True where a checkpoint will be loaded: the start need not be computed
        self.task = None
        self.tasks = {}
        self.teacher: Teacher | None = None
        self.eval_metrics = nn.ModuleDict()

    # -- what a subclass provides -------------------------------------------------------------------------------

    @property
    def method(self) -> str:
        """Name of the method, e.g. ``sws``; variants by an option may have a name of their own."""
        return self.spec.name

    @cached_property
    def architecture(self) -> Architecture:
        """Architecture of the network. A method that changes the one in ``arch`` overrides this."""
        return self.parsed_architecture

    @abstractmethod
    def build_network(self) -> nn.Module:
        """Build the network to train; called once, when the task is known."""

    @abstractmethod
    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Named losses of one batch; ``loss`` is the one that is minimized, the others are logged beside it."""

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene | None:
        """The learngene in a state dict of the network (names without ``network.``); None if the method has none."""
        return None

    def teacher_request(self) -> TeacherRequest | None:
        """The teacher to load before training; None without one. The tasks are known."""
        return None

    def cost_probe(self) -> CostProbe:
        """What a plan runs to count one training step."""
        return CostProbe(self)

    def assume_missing_files(self, tasks: Mapping[str, Task]) -> tuple[str, ...]:
        """Let a plan go on without files that do not exist yet, before :meth:`setup` reads them.

        Args:
            tasks: The tasks of the data module, by name.

        Returns:
            A sentence on each assumption.
        """
        return ()

    def figures(self) -> dict[str, "Figure"]:
        """Figures of the network after a validation, by name. Called on every process, drawn on the first."""
        return {}

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
        return self.dropout if self.parsed_architecture.kind == "text" else self.drop_path_rate

    def label_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy with labels: indices (B,) or (B, H, W), several (B, K), or shares (B, K) where mixup is on."""
        smoothing = 0.0 if targets.is_floating_point() else self.label_smoothing  # timm's Mixup smooths by itself
        return label_loss(logits.float(), targets, smoothing)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """One step on one batch."""
        if self.mix is not None:
            inputs, targets = self.mix(batch.inputs, batch.targets)
            batch = Batch(inputs, targets, batch.task)
        losses = self.training_losses(batch)
        self.step_losses = losses
        for name, value in losses.items():
            self.log(f"train/{name}", value.detach(), prog_bar=name == "loss", batch_size=len(batch.inputs))
        return losses["loss"]

    # -- Lightning hooks ----------------------------------------------------------------------------------------

    def setup(self, stage: str) -> None:
        """Learn the tasks from the data module; for training also load the teacher.

        Raises:
            UserError: If the task does not suit the network, or the teacher cannot be read or does not suit the task.
        """
        self.learn_tasks()
        needs_teacher = stage == "fit" or (self.evaluates_with_teacher and stage != "plan")
        request = self.teacher_request() if needs_teacher else None
        if request is not None:
            self.teacher = load_teacher(request, self.data_module().is_augmented or self.mix is not None, self.print)

    def learn_tasks(self) -> None:
        """Learn the tasks from the data module and check that the architecture reads them.

        Raises:
            UserError: If what is predicted, classes, or image size and channels or vocabulary and longest text differ.
        """
        if self.varying_graph and isinstance(self.trainer.strategy, DDPStrategy):
            self.trainer.strategy._ddp_kwargs["find_unused_parameters"] = True  # it costs time, so only where needed
        task, own = self.data_module().task, self.architecture
        if own.kind != task.kind:
            raise UserError(f"model.kind: the network is for {own.kind}, but task {task.name} is {task.kind}")
        self.check_task(task)
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
            self.learn_tasks()
        self.network = self.build_network()
        strategy = None if self._trainer is None else self.trainer.strategy
        check_sharding_strategy(strategy)
        if isinstance(strategy, ShardedStrategy):
            if not self.shards:
                raise UserError(f"trainer.strategy: the network of {self.method} cannot be sharded; use ddp")
            strategy.shard(self.network, self.architecture.layers)
        if self.compile_network:
            self.network.compile()

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
            "plain_network": self.plain_network,
        }

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Describe the network, so that other commands can rebuild it without this run's configuration."""
        # An epoch that has begun counts: 0 means untrained, and nothing else.
        fits = self.trainer.state.fn == "fit" and self.global_step > 0
        begun = self.trainer.fit_loop.epoch_progress.current.started if fits else 0  # type: ignore[attr-defined]
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
        self.resumed_optimizers = about.get("optimizers")  # compared later, when this run's optimizers are made
        self.epochs_trained = int(about["epochs"])
