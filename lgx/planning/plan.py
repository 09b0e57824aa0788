"""The plan of a run: its length, cost, memory and files, before it starts."""

from dataclasses import asdict, dataclass
from typing import Any

from jsonargparse import Namespace

from lgx.architectures import name_of
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.planning.configured import Configured, configure
from lgx.planning.cost import (
    PASSES,
    StepCost,
    TeacherCost,
    empty_batch,
    largest_task,
    learngene_bytes,
    optimizer_bytes,
    precision_of,
    step_cost,
    stored,
    teacher_cost,
)
from lgx.planning.measured import measure
from lgx.planning.steps import Steps, count_steps


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
        forward: Forward pass of one example through the trained network; of an architecture set the mean.
        own: A hypernetwork's own work per example: the work of a step that does not depend on the batch, divided by it.
        teacher: Forward pass of one example through the teacher.
        example: Training on one example: three times ``forward`` and ``own``, because the backward pass takes twice the
            forward pass, and once ``teacher``.
        total: The whole training.
    """

    forward: float
    own: float
    teacher: float
    example: float
    total: float


@dataclass(frozen=True)
class Memory:
    """Bytes on each GPU at the end of a forward pass, when memory use is highest.

    Attributes:
        weights: Parameters and buffers of the network.
        teacher: Those of the teacher.
        gradients: Gradients.
        optimizer: The optimizer's state; None where it could not be counted.
        buckets: Copies of the gradients that DDP exchanges.
        activations: What the backward pass needs.
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
class Speed:
    """Speed of the training.

    Attributes:
        throughput: Training examples per second and GPU.
        hours: Hours of training, without validation and tests.
        gpu_hours: ``hours`` times the number of GPUs.
        source: How the throughput is known.
    """

    throughput: float
    hours: float
    gpu_hours: float
    source: str


@dataclass(frozen=True)
class Plan:
    """The plan of a run.

    Attributes:
        model: Class of the method.
        architecture: The trained architecture, or the base of an architecture set.
        task: Names of the tasks.
        gpus: GPUs per node.
        nodes: Nodes.
        precision: Lightning's name of the precision.
        steps: Steps and examples.
        parameters: Numbers of parameters.
        flops: Floating-point operations.
        memory: Memory on each GPU.
        example_bytes: One decoded example, as it enters the network.
        checkpoint_bytes: One checkpoint.
        learngene_bytes: The learngene; None without one, or where training decides its size.
        speed: Time; None where no speed is given.
        notes: Assumptions, and what is not counted.
    """

    model: str
    architecture: str
    task: str
    gpus: int
    nodes: int
    precision: str
    steps: Steps
    parameters: Parameters
    flops: Flops
    memory: Memory
    example_bytes: int
    checkpoint_bytes: int
    learngene_bytes: int | None
    speed: Speed | None
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain types, with the derived values."""
        steps, values = self.steps, asdict(self)
        derived = ("effective_batch", "epochs", "samples_per_epoch", "samples")
        values["steps"] |= {name: getattr(steps, name) for name in derived}
        values["memory"]["total"] = self.memory.total
        values["data_bytes"] = self.example_bytes * steps.samples
        return values


def make_plan(argv: list[str]) -> Plan:
    """Plan a run.

    Args:
        argv: Options of ``lgx fit`` and of :class:`~lgx.planning.configured.PlanOptions`.

    Raises:
        UserError: If an option is wrong.
    """
    return plan_of(configure(argv))


def plan_of(run: Configured) -> Plan:
    """Plan a run whose configuration has been read.

    Raises:
        UserError: If its parts do not suit each other, or a file is needed that does not exist.
    """
    method, options, trainer = run.method, run.options, run.trainer
    gpus = options.gpus or _number(trainer.devices)
    nodes = options.nodes or _number(trainer.num_nodes)
    processes = gpus * nodes
    word = str(trainer.precision or ("32-true" if trainer.accelerator == "cpu" else "bf16-mixed"))
    precision = precision_of(word)
    sharded = _is_sharded(trainer, method)

    steps, sources = count_steps(method, run.data, trainer, options, processes)
    teacher, problem = teacher_cost(method)
    cost = step_cost(run.step, steps.batch, precision, teacher.width)
    state = optimizer_bytes(method)
    notes = _notes(run, sources, sharded)
    if problem:
        notes.append(problem)
    if state is None:
        notes.append("Not counted: the optimizer's state, which its class makes on real parameters alone.")

    own = cost.own / steps.batch
    example = PASSES * (cost.forward + own) + teacher.forward
    flops = Flops(cost.forward, own, teacher.forward, example, example * steps.samples)
    share, weights = processes if sharded else 1, list(method.network.state_dict().values())
    memory = Memory(
        weights=cost.weights // share,
        teacher=teacher.weights,
        gradients=cost.gradients // share,
        optimizer=None if state is None else state // share,
        buckets=cost.all_gradients if processes > 1 and not sharded and _copies_gradients(trainer) else 0,
        activations=cost.activations,
    )
    return Plan(
        model=type(method).__name__,
        architecture=name_of(method.architecture),
        task=", ".join(method.tasks),
        gpus=gpus,
        nodes=nodes,
        precision=word,
        steps=steps,
        parameters=Parameters(cost.trained, cost.frozen, teacher.parameters),
        flops=flops,
        memory=memory,
        example_bytes=empty_batch(method, largest_task(method), 1).inputs.nbytes,
        checkpoint_bytes=stored(weights) + (0 if run.checkpoint.save_weights_only else state or 0),
        learngene_bytes=learngene_bytes(run.step),
        speed=_speed(run, steps, flops, word, cost, teacher),
        notes=tuple(notes),
    )


def _speed(
    run: Configured, steps: Steps, flops: Flops, precision: str, cost: StepCost, teacher: TeacherCost
) -> Speed | None:
    options = run.options
    if options.throughput is not None:
        throughput, source = options.throughput, "as given"
    elif options.tflops is not None:
        throughput = options.tflops * 1e12 * options.mfu / flops.example
        source = f"{options.tflops:g} TFLOP/s, of which {100 * options.mfu:g} % are reached"
    elif options.measure:
        rate, source = measure(run.step, steps.batch, precision, run.trainer.accelerator, cost, teacher)
        throughput = rate / flops.example
    else:
        return None
    hours = steps.samples / (throughput * steps.processes) / 3600
    return Speed(throughput, hours, hours * steps.processes, source)


def _notes(run: Configured, sources: tuple[str, ...], sharded: bool) -> list[str]:
    method, options = run.method, run.options
    notes = [*(method.assumed or ()), f"Training examples: {', '.join(sources)}."]
    if any(task.kind == "text" for task in method.tasks.values()):
        notes.append("Every text counts with data.max_len tokens; shorter ones take less.")
    notes += run.step.notes
    if method.evaluates_starts and options.tflops is not None:
        notes.append(
            "A hypernetwork's thin products and many small operations reach a smaller share of TFLOP/s than an "
            "ordinary network: measure it (--measure on such a GPU) before you trust this time."
        )
    if sharded:
        notes.append(
            "trainer.strategy shares weights, gradients and the optimizer's state among all GPUs; a whole layer comes "
            "on top."
        )
    if options.measure:
        notes.append("Measured on one process here: what several lose by waiting for each other is not in it.")
    return notes


def _is_sharded(trainer: Namespace, method: Method) -> bool:
    """Whether each GPU keeps only a share of the network.

    Raises:
        UserError: If the method's network cannot be sharded.
    """
    strategy: Any = trainer.strategy
    name = strategy if isinstance(strategy, str) else str(getattr(strategy, "class_path", ""))
    sharded = name.rsplit(".", 1)[-1].lower() in ("sharded", "fsdp", "fsdpstrategy", "modelparallelstrategy")
    if sharded and not method.shards:
        raise UserError(f"trainer.strategy: the network of {type(method).__name__} cannot be sharded; use ddp")
    return sharded


def _copies_gradients(trainer: Namespace) -> bool:
    """Whether DDP exchanges copies of the gradients: the default, unless ``gradient_as_bucket_view`` is set."""
    strategy: Any = trainer.strategy
    groups = [strategy.get(k) for k in ("init_args", "dict_kwargs")] if isinstance(strategy, Namespace) else []
    return not any(group and group.get("gradient_as_bucket_view") for group in groups)


def _number(value: Any) -> int:
    """GPUs or nodes in the configuration; 1 where the machine decides."""
    if isinstance(value, list):
        return len(value)
    return int(value) if str(value).isdecimal() and int(value) > 0 else 1
