"""The plan of a run: its length, cost, memory and files, before it starts."""

from dataclasses import asdict, dataclass, replace
from types import SimpleNamespace
from typing import Any

from jsonargparse import Namespace

from data_modules.base import TaskDataModule
from lgx.architectures import full_name
from lgx.artifacts.timm_models import without_weights
from lgx.core.flops import flop_counter
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.planning.configured import Configured, PlanOptions, configure
from lgx.planning.trial import Precision, Trial, held, optimizer_bytes, precision_of, stored


@dataclass(frozen=True)
class Parameters:
    """Numbers of parameters.

    Attributes:
        trained: Trained parameters.
        frozen: Parameters of the network that are not trained.
        teacher: Parameters of the teacher.
    """

    trained: int
    frozen: int
    teacher: int


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of matrix products, two per multiply-accumulate; other operations are not counted.

    Attributes:
        example: Training on one example, as counted: an average step, divided by the examples of its batch.
        teacher: The part of it that the teacher takes.
    """

    example: float
    teacher: float


@dataclass(frozen=True)
class Memory:
    """Bytes on each GPU at the end of a forward pass, when memory use is highest.

    Attributes:
        weights: Parameters and buffers of the network.
        teacher: Those of the teacher.
        gradients: Gradients of one step.
        optimizer: The optimizer's state; None if it cannot be counted.
        buckets: Copies of the gradients of all that is trained, which DDP exchanges.
        activations: What the backward pass of a batch needs, in the step that needs most.
    """

    weights: int
    teacher: int
    gradients: int
    optimizer: int | None
    buckets: int
    activations: int

    @property
    def total(self) -> int:
        """All of it."""
        return sum(value or 0 for value in asdict(self).values())


@dataclass(frozen=True)
class Steps:
    """Steps and examples of a run.

    Attributes:
        total: Optimizer steps.
        per_epoch: Optimizer steps per epoch.
        batches_per_epoch: Batches per epoch and process.
        accumulate: Batches whose gradients are accumulated for one step.
        batch: Examples per batch and process.
        processes: GPUs in all.
        training_examples: Examples of the training split.
    """

    total: int
    per_epoch: int
    batches_per_epoch: int
    accumulate: int
    batch: int
    processes: int
    training_examples: int

    @property
    def effective_batch(self) -> int:
        """Examples per optimizer step."""
        return self.batch * self.accumulate * self.processes

    @property
    def epochs(self) -> float:
        """Number of epochs; the last one may be incomplete."""
        return self.samples / self.samples_per_epoch if self.samples_per_epoch else 0.0

    @property
    def samples_per_epoch(self) -> int:
        """Examples per epoch, on all processes."""
        return self.batches_per_epoch * self.batch * self.processes

    @property
    def samples(self) -> int:
        """Examples of the whole run; the last step of an epoch may have fewer batches."""
        whole, rest = divmod(self.total, self.per_epoch) if self.per_epoch else (0, 0)
        batches = whole * self.batches_per_epoch + min(rest * self.accumulate, self.batches_per_epoch)
        return batches * self.batch * self.processes


@dataclass(frozen=True)
class Plan:
    """The plan of a run.

    Attributes:
        model: Class of the method.
        architecture: The trained architecture, or the base of an architecture set.
        task: Names of the tasks.
        gpus: GPUs per node; processes on a CPU.
        device: ``GPU`` or ``CPU``.
        nodes: Nodes.
        precision: Lightning's name of the precision.
        steps: Steps and examples.
        parameters: Numbers of parameters.
        flops: Floating-point operations.
        memory: Memory on each GPU.
        checkpoint_bytes: One checkpoint.
        learngene_bytes: The learngene; None without one, or where training decides its size.
        throughput: Training examples per second and GPU; None without a given speed.
        notes: Assumptions, and uncounted parts.
    """

    model: str
    architecture: str
    task: str
    gpus: int
    device: str
    nodes: int
    precision: str
    steps: Steps
    parameters: Parameters
    flops: Flops
    memory: Memory
    checkpoint_bytes: int
    learngene_bytes: int | None
    throughput: float | None
    notes: tuple[str, ...]

    @property
    def total_flops(self) -> float:
        """Floating-point operations of the whole training."""
        return self.flops.example * self.steps.samples

    @property
    def hours(self) -> float | None:
        """Hours of training, without validation and tests."""
        return self.throughput and self.steps.samples / (self.throughput * self.steps.processes) / 3600

    def to_dict(self) -> dict[str, Any]:
        """Plain types, with the derived values."""
        steps = self.steps
        values = asdict(self)
        derived = ("effective_batch", "epochs", "samples_per_epoch", "samples")
        values["steps"] |= {name: getattr(steps, name) for name in derived}
        values["memory"]["total"] = self.memory.total
        values["flops"]["total"] = self.total_flops
        values["hours"] = self.hours
        return values


def make_plan(argv: list[str]) -> Plan:
    """Plan a run.

    Args:
        argv: Options of ``lgx fit`` and of :class:`~lgx.planning.configured.PlanOptions`.
    """
    return plan_of(configure(argv))


def plan_of(run: Configured) -> Plan:
    """Plan a run whose configuration has been read."""
    method, options, trainer = run.method, run.options, run.trainer
    gpus = options.gpus or _number(trainer.devices)
    nodes = options.nodes or _number(trainer.num_nodes)
    processes = gpus * nodes
    word = str(trainer.precision or ("32-true" if trainer.accelerator == "cpu" else "bf16-mixed"))
    precision = precision_of(word)
    sharded = _is_sharded(trainer, method)

    if run.splits_batch:
        run.data.split_batch(processes)
    steps, sources = count_steps(method, run.data, trainer, options, processes)
    with without_weights():
        parameters, flops, memory, problems = _counted(method, steps, precision)
    state = memory.optimizer
    weights = method.network.state_dict()
    learngene = method.learngene(weights)
    if sharded:
        shares = {"weights": memory.weights // processes, "gradients": memory.gradients // processes}
        memory = replace(memory, **shares, optimizer=None if state is None else state // processes)
    if processes == 1 or sharded:
        memory = replace(memory, buckets=0)
    return Plan(
        model=type(method).__name__,
        architecture=full_name(method.architecture),
        task=", ".join(method.tasks),
        gpus=gpus,
        device="CPU" if trainer.accelerator == "cpu" else "GPU",
        nodes=nodes,
        precision=word,
        steps=steps,
        parameters=parameters,
        flops=flops,
        memory=memory,
        checkpoint_bytes=stored([*weights.values()]) + (0 if run.checkpoint.save_weights_only else state or 0),
        learngene_bytes=sum(tensor.nbytes for tensor in learngene.tensors.values()) if learngene else None,
        throughput=options.tflops * 1e12 * options.mfu / flops.example if options.tflops else options.throughput,
        notes=(*_notes(run, sources, sharded), *problems),
    )


def count_steps(
    method: Method, data: TaskDataModule, trainer: Namespace, options: PlanOptions, processes: int
) -> tuple[Steps, tuple[str, ...]]:
    """Count the steps of a run, and prepare the method: it knows its tasks, and has its teacher.

    Args:
        method: The method, without a network.
        data: Its data module, which is read only where nothing else gives the number of training examples.
        trainer: Arguments of the trainer.
        options: Those of the plan.
        processes: GPUs in all.

    Returns:
        The steps, and where the number of training examples comes from.
    """
    accumulate = int(trainer.accumulate_grad_batches)
    # The attributes of a trainer that loaders, samplers and methods read.
    standing: Any = SimpleNamespace(
        datamodule=data, strategy=None, world_size=processes, num_devices=1, global_rank=0, is_global_zero=False,
        limit_train_batches=1.0 if trainer.limit_train_batches is None else trainer.limit_train_batches,
        accumulate_grad_batches=accumulate, max_epochs=trainer.max_epochs, max_steps=trainer.max_steps,
        check_val_every_n_epoch=1, fit_loop=SimpleNamespace(max_epochs=trainer.max_epochs), callbacks=[],
        state=SimpleNamespace(fn="fit"), progress_bar_callback=None, log_every_n_steps=0, is_last_batch=False,
        should_stop=False, global_step=0, current_epoch=0,
    )  # fmt: skip
    method.trainer = data.trainer = standing
    vars(method)["log"] = lambda *_, **__: None
    counted = [_training_examples(member, options) for member in data.members()]
    sizes = [size for size, _ in counted]
    batches = data.epoch_batches(sizes)
    # Nothing is loaded: methods ask this loader for the length of an epoch only.
    vars(data)["train_dataloader"] = lambda: SimpleNamespace(epoch_length=batches)
    method.expect_checkpoint({})  # a start has the same network
    with without_weights():
        method.setup("fit")
    method.on_fit_start()
    standing.total_steps = method.total_steps()
    standing.batches_per_epoch = batches
    steps = Steps(
        total=standing.total_steps,
        per_epoch=-(-batches // accumulate),
        batches_per_epoch=batches,
        accumulate=accumulate,
        batch=data.batch_size,
        processes=processes,
        training_examples=sum(sizes),
    )
    return steps, tuple(dict.fromkeys(source for _, source in counted))


def _training_examples(member: TaskDataModule, options: PlanOptions) -> tuple[int, str]:
    """The number of training examples, with ``data.limit_train`` applied, and where it comes from."""
    size = options.samples_of(member.task.name)
    source = "as --samples says"
    if size is None:
        size = member.nominal_train_size()
        source = "known of the set"
    if size is None:
        try:
            size = member.count_train()
            source = "counted on the disk"
        except UserError as error:
            name = member.task.name
            raise UserError(
                f"data {name}: only its files give the number of training examples of this split; give --samples "
                f"{name}=NUMBER, or provide the files ({error})"
            ) from error
    limit = getattr(member, "limit_train", None)
    return size if limit is None else min(size, limit), source


def _counted(method: Method, steps: Steps, precision: Precision) -> tuple[Parameters, Flops, Memory, list[str]]:
    """Parameters, FLOPs, memory with the buckets of DDP, and what could not be counted, in sentences."""
    method.configure_model()
    network = method.network.to(precision.weights).train()
    trial = Trial(method, method.trainer, steps.batch, precision)
    flops, most = trial.mean()
    teacher, of_teacher = 0, 0.0
    if method.teacher is not None and (request := method.teacher_request()) is not None:
        teacher = held(method.teacher.model)
        with flop_counter() as counter:
            inputs = trial.batch(2, is_real=False).inputs
            (method.teacher.features if request.features_only else method.teacher)(inputs)
        of_teacher = counter.get_total_flops() / 2
    state = optimizer_bytes(method)
    problems = list[str]()
    if state is None:
        problems.append("Not counted: the optimizer's state, which its class creates for real parameters only.")
    if trial.needs_values:
        problems.append("Some steps depend on the values of their inputs: they were counted on random images or texts.")
    trained = [p for p in network.parameters() if p.requires_grad]
    frozen = sum(p.numel() for p in network.parameters() if not p.requires_grad)
    parameters = Parameters(
        sum(p.numel() for p in trained), frozen, method.teacher.num_parameters if method.teacher else 0
    )
    buckets = sum(p.nbytes for p in trained)
    memory = Memory(held(network), teacher, most.gradients, state, buckets, round(most.saved))
    return parameters, Flops(flops / steps.batch, of_teacher), memory, problems


def _notes(run: Configured, sources: tuple[str, ...], sharded: bool) -> list[str]:
    method, options = run.method, run.options
    notes = [f"Training examples: {', '.join(sources)}."]
    if any(task.reads_text for task in method.tasks.values()):
        notes.append("Every text counts with data.max_len tokens; shorter texts cost less.")
    if method.drawn:
        notes.append("FLOPs are means over the networks that steps draw. Memory is that of the largest of them.")
    if method.finishes:
        notes.append("Not counted: the change of the weights when training ends, such as the fit of a head.")
    if method.evaluates_starts and options.tflops is not None:
        notes.append(
            "A hypernetwork's thin products and many small operations reach a smaller share of TFLOP/s than an "
            "ordinary network. This time may be too short: measure some steps on such a GPU, and give --throughput."
        )
    if sharded:
        notes.append(
            "trainer.strategy divides weights, gradients and the optimizer's state among all GPUs. One whole layer "
            "must be added."
        )
    return notes


def _is_sharded(trainer: Namespace, method: Method) -> bool:
    """Whether each GPU keeps only a share of the network."""
    strategy: Any = trainer.strategy
    name = strategy if isinstance(strategy, str) else str(getattr(strategy, "class_path", ""))
    sharded = name.rsplit(".", 1)[-1].lower() in ("sharded", "fsdp", "fsdpstrategy", "modelparallelstrategy")
    if sharded and not method.shards:
        raise UserError(f"trainer.strategy: the network of {type(method).__name__} cannot be sharded; use ddp")
    return sharded


def _number(value: Any) -> int:
    """GPUs or nodes in the configuration; 1 where the machine decides."""
    if isinstance(value, list) or "," in str(value):  # numbers of devices
        return len(value if isinstance(value, list) else value.strip(", ").split(","))
    return int(value) if str(value).isdecimal() and int(value) > 0 else 1
