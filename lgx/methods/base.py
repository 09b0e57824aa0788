"""The base class of all methods: task, teacher, step, optimizer, schedule, and the description in checkpoints."""

import shlex
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Literal, cast

from lightning.pytorch.cli import OptimizerCallable
from torch import Tensor, nn

from data_modules.base import TaskDataModule
from lgx.architectures import Architecture, parse_for
from lgx.architectures.building import building_on
from lgx.artifacts.learngene import Learngene
from lgx.components.losses import label_loss, make_mixup
from lgx.components.metrics import metrics_for
from lgx.components.normalization import follow_normalization
from lgx.components.optim import SchedulerCallable, fuse, make_scheduler, parameter_groups, scale_rates
from lgx.components.sharding import shard
from lgx.components.teacher import Teacher, TeacherRequest
from lgx.components.updates import UpdateMean, losses_may_be_read
from lgx.core.batch import Batch
from lgx.core.flops import flop_counter
from lgx.core.names import check_label
from lgx.core.schema import check_option
from lgx.core.seed import run_seed, seed_step
from lgx.core.task import Kind, Normalization, Task
from lgx.errors import UserError
from lgx.host.failures import blame
from lgx.methods.checkpoint_checks import check_resumable, order_classes, stored_normalization, with_stored_kinds
from lgx.methods.evaluation import EvaluatedModule
from lgx.methods.spec import MethodSpec

Trained = Literal["descendant", "ancestor", "learngene"]
"""What a run trains; ``learngene`` includes networks from which a learngene is extracted."""


class Method(EvaluatedModule):
    """Base of all methods.

    A subclass sets ``spec``, builds its network in :meth:`build_network` and names its losses in
    :meth:`training_losses`. All methods log the same tags: ``train/loss``, ``val/loss``, ``test/loss``, and the task's
    metrics as ``val/acc``, ``test/acc``, ``val/miou``, ..., see :mod:`lgx.components.metrics`.

    Args:
        arch: Architecture of the network: a name (``6-Small``) or a spec (``depth=6,embed_dim=384,num_heads=6``); for
            text ``6-GPT2`` or ``hf:depth=6,embed_dim=384,num_heads=6``; default: the source's, if it is trained
            whole.
        optimizer: Optimizer, e.g. ``torch.optim.AdamW`` with its learning rate. Vectors have no weight decay.
        scheduler: Learning-rate schedule, e.g. ``WarmupCosine``, stepped after every update; by default the rate is
            constant.
        num_classes: Number of classes; the data module gives it.
        kind: What is predicted; the data module gives it.
        label_smoothing: Label smoothing ε of the cross-entropy with labels.
        mixup: Mixup's α; 0 is off (timm's Mixup), as for ``cutmix``, CutMix's α.
        drop_path_rate: Stochastic depth of an image model's last layer, rising linearly from 0.
        dropout: Dropout rate of a text model's embeddings, attention weights and residual updates; GPT-2 has 0.1.
        compile: Compile the network with torch.compile; saves time in long runs.
        label: Name in results for a variant of the method, e.g. ``tal_plus``; by default the method's name.

    Attributes:
        spec: The method's declaration.
        arch_option: Constructor argument that names a network whose architecture is the default of ``arch``, or None.
        shards: Whether processes may share the network's layers.
        plain_network: Whether a checkpoint can be read as a pretrained network of its architecture.
        evaluates_starts: Whether evaluation measures untrained descendants (epoch 0 in results).
        follows_normalization: Whether images get the start's normalization, unless ``data.mean`` is given.
        learngene_of_best: Whether the learngene comes from the best checkpoint; otherwise from the last weights.
        trains: What a run trains.
        teacher: The frozen network that the loss compares with; loaded for training, None without one.
        step_losses: The named losses of the last training step, with graphs until the end of its backward pass.
        drawn: Networks that the step trains, where every step draws some; empty where all steps train the same network.
        start_flops: FLOPs outside of updates: of the start, e.g. of a prediction or of importances, and of the finish.
        is_restored: Whether the network gets no start, because a checkpoint follows.
    """

    spec: ClassVar[MethodSpec]
    arch_option: ClassVar[str | None] = None
    shards: ClassVar[bool] = False
    plain_network: ClassVar[bool] = False
    evaluates_starts: ClassVar[bool] = False
    follows_normalization: ClassVar[bool] = False
    learngene_of_best: ClassVar[bool] = True
    trains: ClassVar[Trained] = "learngene"

    def __init__(
        self,
        arch: str | None = None,
        *,
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
            check_option(option, share, 0 <= share < 1, "a share in [0, 1)")
        self.parsed_architecture = parse_for(arch or "", kind, num_classes)
        if self.parsed_architecture.kind not in self.spec.kinds:
            raise UserError(
                f"model {type(self).__name__}: is for {' and '.join(self.spec.kinds)}, but the task is "
                f"{self.parsed_architecture.kind}; choose another --model"
            )
        reads_text = self.parsed_architecture.reads_text
        if drop_path_rate if reads_text else dropout:
            option, wanted = ("drop_path_rate", "image") if reads_text else ("dropout", "text")
            raise UserError(f"model.{option}: expected 0, because only {wanted} models have it")
        self.optimizer, self.scheduler = optimizer, scheduler
        self.label_smoothing = label_smoothing
        self.drop_rate = dropout if reads_text else drop_path_rate
        self.compile_network = compile
        self.mix = make_mixup(mixup, cutmix, self.parsed_architecture)
        self.teacher: Teacher | None = None
        self.step_losses: dict[str, Tensor] = {}
        self.epochs_trained = 0
        self.start_flops = 0.0
        self.is_restored = False
        self.drawn: Sequence[Architecture] = ()
        self._label = label
        self._printed = {""}
        self._update = UpdateMean()

    # -- what a subclass provides -------------------------------------------------------------------------------

    @property
    def method(self) -> str:
        """Name of the method, e.g. ``sws``; variants by an option may have another name."""
        return self.spec.name

    @property
    def varying_graph(self) -> bool:
        """Whether a step may leave some parameters without a gradient."""
        return False

    @property
    def label(self) -> str:
        """Name in results: ``label``, or the method's."""
        return self._label or self.method

    @cached_property
    def architecture(self) -> Architecture:
        """Architecture of the network. A method that changes the one in ``arch`` overrides this."""
        return self.parsed_architecture

    def expect_checkpoint(self, about: Mapping[str, Any]) -> None:
        """Continue from a checkpoint with this description; kinds of layers are those of its network."""
        self.is_restored = True
        self.parsed_architecture = with_stored_kinds(self.parsed_architecture, about)

    @abstractmethod
    def build_network(self) -> nn.Module:
        """Build the network to train; called once, after the task is known."""

    @abstractmethod
    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Named losses of one batch, scalars; ``loss`` is minimized, all others are only logged."""

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene | None:
        """The learngene in a state dict of the network (names without ``network.``); None if the method has none."""
        return None

    @property
    def finishes(self) -> bool:
        """Whether :meth:`finish` changes the weights when training ends."""
        return False

    def finish(self) -> None:
        """Change the final weights when training ends, after their average and before they are saved.

        Called on every process if :attr:`finishes`.
        """

    def teacher_request(self) -> TeacherRequest | None:
        """The teacher to load before training; None without one. The tasks are known."""
        return None

    def start_normalization(self) -> tuple[Normalization | None, str] | None:
        """Normalization of the start, None if unknown, and the start's name; None without a start to follow."""
        return None

    def trained_groups(self) -> list[dict[str, Any]]:
        """Parameter groups of the optimizer: with and without weight decay."""
        return parameter_groups(self.network)

    def next_command(self, folder: Path) -> str:
        """A command that uses the results of a finished run."""
        return f"lgx test --config {shlex.quote(str(folder / 'config.yaml'))}"

    # -- task and network ---------------------------------------------------------------------------------------

    def data_module(self) -> TaskDataModule:
        """The trainer's data module.

        Raises:
            UserError: If the trainer was given bare loaders, or a data module without a task.
        """
        module = getattr(self.trainer, "datamodule", None)
        if not isinstance(module, TaskDataModule):
            name = "bare loaders" if module is None else type(module).__name__
            raise UserError(
                f"data: expected a TaskDataModule, which tells a method its task; give one with --data, not {name}"
            )
        return module

    def setup(self, stage: str) -> None:
        """Read the tasks from the data module; for training also load the teacher."""
        self.learn_tasks()
        needs_teacher = stage == "fit" or self.evaluates_with_teacher
        request = self.teacher_request() if needs_teacher else None
        if request is not None:
            self.teacher = Teacher.requested(request)

    def learn_tasks(self) -> None:
        """Read the tasks from the data module, whose images follow the start's normalization.

        Raises:
            UserError: If kind, classes or inputs of the tasks differ from the network's.
        """
        self._read_tasks()
        start = None if self.is_restored else self.start_normalization()
        if start is not None:
            self._follow(*start)

    def _read_tasks(self) -> None:
        task = self.validated_as(self.data_module().task)
        kind = self.architecture.kind
        if kind != task.kind:
            raise UserError(f"model.kind: the network is for {kind}, but task {task.name} is {task.kind}")
        self.check_task(task)
        if self.mix is not None and self.data_module().batch_size % 2:
            raise UserError(f"data.batch_size: mixup needs an even number, got {self.data_module().batch_size}")
        self.task = task
        self.set_tasks({name: self.validated_as(task) for name, task in self.data_module().all_tasks.items()})

    def _follow(self, wanted: Normalization | None, start: str) -> None:
        line = follow_normalization(self.data_module(), wanted, start)
        if line not in self._printed:
            self.print(line)  # once: a test reads the tasks again
        self._printed.add(line)
        self._read_tasks()
        if self.teacher is not None and self.task is not None:
            self.teacher = self.teacher.for_task(self.task)

    def check_task(self, task: Task) -> None:
        """Refuse a task with other inputs or classes than the network's, or without labels.

        Raises:
            UserError: If it does not suit the method.
        """
        if not task.is_labeled:
            raise UserError(
                f"data: the images of task {task.name} have no labels, but model {type(self).__name__} needs labels; "
                "give class folders (--data ImageFolderData) or another set with labels"
            )
        self.architecture.check_task(task, "model.arch")

    def set_tasks(self, tasks: dict[str, Task]) -> None:
        """Set the tasks, by name, and make their metrics."""
        assert self.task is not None
        if len({(task.kind, task.metric) for task in tasks.values()}) > 1:
            several = ", ".join(f"{name} ({task.kind}, {task.metric})" for name, task in tasks.items())
            raise UserError(
                f"data.tasks: {self.method} trains one network for one kind of task, but these tasks are {several}"
            )
        self.tasks = {**tasks, self.task.name: self.task}
        self.eval_metrics = nn.ModuleDict({f"{s}_metrics": metrics_for(self.task, s) for s in ("val", "test")})

    @building_on("cpu")  # Lightning sets the GPU, but starts are computed from tensors of files
    def configure_model(self) -> None:
        """Build the network once; under ``trainer.strategy: sharded`` every process keeps a share of each layer."""
        if hasattr(self, "network"):
            return
        if self._trainer is not None and self.task is None:  # Lightning's averaging of weights calls it before setup
            self.learn_tasks()
        with flop_counter() as counter:
            self.network = self.build_network()
        self.start_flops += counter.get_total_flops()
        if self._trainer is not None:
            shard(self.network, self.trainer.strategy, self.architecture.layers if self.shards else None, self.method)
        if self.compile_network:
            self.network.compile()

    # -- training -----------------------------------------------------------------------------------------------

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of images (B, C, H, W) or token ids (B, N): (B, K), (B, K, H, W) for pixels, (B, N, V) for tokens."""
        return cast(Tensor, self.network(inputs))

    def label_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy with labels: indices (B,) or (B, H, W), several (B, K), or shares (B, K) where mixup is on."""
        return label_loss(logits.float(), targets, self.label_smoothing)

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Seed the step by (seed, epoch, batch, rank), so that a resumed run draws the same random numbers."""
        seed_step(run_seed(), self.current_epoch, batch_idx, self.global_rank)

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """One step on one batch: the scalar loss."""
        if self.mix is not None:
            inputs, targets = self.mix(batch.inputs, batch.targets)
            batch = Batch(inputs, targets, batch.task)
        self.step_losses = losses = self.training_losses(batch)
        has_bar = self.trainer.progress_bar_callback is not None  # for it Lightning waits for the GPU at every step
        for name, value in losses.items() if has_bar or losses_may_be_read(self.trainer) else ():
            self.log(f"train/{name}", value.detach(), prog_bar=has_bar and name == "loss", batch_size=len(batch.inputs))
        kind = self.tasks[batch.task].kind
        return self._update.weighted(losses["loss"], batch.targets, self.trainer, batch_idx, kind)

    def on_after_backward(self) -> None:
        """Scale the gradients of a complete update to the mean over its examples; release the step's graph."""
        self._update.correct(self, self.trainer, {task.kind for task in self.tasks.values()})
        self.step_losses = {name: loss.detach() for name, loss in self.step_losses.items()}

    def on_train_epoch_end(self) -> None:
        """Count the epochs for the column ``epochs`` of results."""
        self.epochs_trained = self.current_epoch + 1

    def configure_optimizers(self) -> Any:
        """Optimizer over :meth:`trained_groups`; the schedule is stepped after every update.

        Raises:
            UserError: If the optimizer or the schedule refuses one of its options.
        """
        groups = self.trained_groups()
        with blame("model.optimizer or model.scheduler: invalid value"):
            optimizer = self.optimizer(groups)
            scale_rates(optimizer)
            if self.trainer.precision != "16-mixed":  # Lightning does not clip the gradients of fused optimizers there
                fuse(optimizer)
            if self.scheduler is None:
                return optimizer
            scheduler = make_scheduler(self.scheduler, optimizer, self.total_steps())
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def total_steps(self) -> int:
        """Optimizer steps of the whole run, from the configuration alone.

        Lightning's ``estimated_stepping_batches`` is not used: reading it drops the loader's resume state.

        Raises:
            UserError: If neither ``trainer.max_steps`` nor ``trainer.max_epochs`` gives an end.
        """
        total = self.planned_steps()
        if total is None:
            raise UserError(
                "trainer.max_epochs or trainer.max_steps: a schedule needs the length of the run; give one of them"
            )
        return total

    def planned_steps(self) -> int | None:
        """Optimizer steps of the whole run; None if only time or the user ends it."""
        trainer = self.trainer
        limits = [int(trainer.max_steps)] if trainer.max_steps > 0 else []
        if trainer.max_epochs is not None and trainer.max_epochs > 0:
            batches = self.data_module().train_dataloader().epoch_length
            limits.append(int(trainer.max_epochs) * -(-batches // trainer.accumulate_grad_batches))
        return min(limits, default=None)

    # -- checkpoints --------------------------------------------------------------------------------------------

    def describe(self) -> dict[str, Any]:
        """The description of a checkpoint, in plain types."""
        about = {
            "method": self.method,
            "architecture": self.architecture.to_dict(),
            "task": self.task.to_dict() if self.task else {},
            "start_flops": self.start_flops,
            "plain_network": self.plain_network,
        }
        if self.follows_normalization:
            used = {task.normalization for task in self.tasks.values() if not task.reads_text}
            one = used.pop() if len(used) == 1 else None
            about["normalization"] = one and {key: list(values) for key, values in one._asdict().items()}
        return about

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Describe the network, so that other commands can rebuild it without this run's configuration."""
        # A started epoch counts, so that 0 always means untrained.
        fits = self.trainer.state.fn == "fit" and self.global_step > 0
        begun = self.trainer.fit_loop.epoch_progress.current.started if fits else 0  # type: ignore[attr-defined]
        checkpoint["lgx"] = self.describe() | {"epochs": max(begun, self.epochs_trained)}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the number of epochs, the FLOPs of the start, and the normalization of images.

        Raises:
            UserError: If the checkpoint is of another method or architecture.
        """
        about = checkpoint.get("lgx", {})
        check_resumable(about, self.method, self.architecture)
        fits = self._trainer is not None and self._trainer.state.fn == "fit"
        order_classes(checkpoint, self.architecture, self.tasks, is_mapped=not (fits or self.evaluates_starts))
        self.epochs_trained = int(about["epochs"])
        self.start_flops = float(about.get("start_flops", 0.0))
        normalization = stored_normalization(about)
        if self.follows_normalization and self._trainer is not None and normalization:
            self._follow(normalization, "the checkpoint's network")
