"""Cost of one training step: FLOPs, memory on each GPU, and stored state."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from lgx.architectures import Architecture
from lgx.core.batch import Batch
from lgx.core.flops import flop_counter
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.methods.planned_step import PlannedStep
from lgx.planning.networks import StandInTeacher, fake_tensors, load_teacher, network_of

PASSES = 3
"""Work of a training step in forward passes: a backward pass costs two, for inputs and for weights."""
SPREAD = 4
"""Number of architectures of a set whose cost is counted; the cost of all others is derived."""


class Precision(NamedTuple):
    """Number types of a precision.

    Attributes:
        weights: Type of parameters, gradients and inputs.
        autocast: Type of products where it differs; None otherwise.
    """

    weights: torch.dtype
    autocast: torch.dtype | None


_DOUBLE, _SINGLE = Precision(torch.float64, None), Precision(torch.float32, None)
_BF16, _FP16 = Precision(torch.float32, torch.bfloat16), Precision(torch.float32, torch.float16)
PRECISIONS = {
    "64-true": _DOUBLE, "64": _DOUBLE, "32-true": _SINGLE, "32": _SINGLE, "bf16-mixed": _BF16, "bf16": _BF16,
    "16-mixed": _FP16, "16": _FP16, "bf16-true": Precision(torch.bfloat16, None),
    "16-true": Precision(torch.float16, None),
}  # fmt: skip


def precision_of(name: str) -> Precision:
    """Number types of one of Lightning's precisions."""
    if name not in PRECISIONS:
        raise UserError(f"trainer.precision: {name} cannot be planned; choose one of {', '.join(PRECISIONS)}")
    return PRECISIONS[name]


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
        forward: One example's share of a batch's forward pass; of an architecture set the mean. A hypernetwork's own
            work, which does not depend on the batch, is in it.
        teacher: Forward pass of one example through the teacher; None if it cannot be counted.
    """

    forward: float
    teacher: float | None

    @property
    def example(self) -> float:
        """Training on one example: three times ``forward``, and once ``teacher`` if counted."""
        return PASSES * self.forward + (self.teacher or 0.0)


@dataclass(frozen=True)
class Memory:
    """Bytes on each GPU at the end of a forward pass, when memory use is highest.

    Attributes:
        weights: Parameters and buffers of the network.
        teacher: Those of the teacher.
        gradients: Gradients of one step.
        optimizer: The optimizer's state; None if it cannot be counted.
        buckets: Copies of the gradients of all that is trained, which DDP exchanges.
        activations: What the backward pass of a batch needs; of the largest architecture of a set.
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


def step_cost(step: PlannedStep, batch_size: int, precision: Precision) -> tuple[Parameters, Flops, Memory, list[str]]:
    """Count what a step costs on one GPU, by running its forward pass on fake tensors.

    Each step of a hypernetwork trains another architecture. The FLOPs of a transformer of L layers and width D are a
    constant plus a multiple of L D plus a multiple of L D²: they are counted for some architectures of the set, and
    their mean over the set follows. Memory is that of the largest architecture.

    Args:
        step: The step of a method that knows its tasks; the method's network and teacher are set here.
        batch_size: Examples of a batch.
        precision: Types of numbers.

    Returns:
        Parameters, FLOPs, memory with the buckets of DDP, and what could not be counted, in sentences.
    """
    method: Method = step.method
    teacher, problems = _count_teacher(method)
    chosen = spread(step.architectures)
    counts = []
    for architecture in chosen:
        with step.restricted_to(architecture):
            counts.append(_count(step, batch_size, precision))
    if chosen:
        forward = mean_over(step.architectures, chosen, [count.flops for count in counts])
    else:
        counts.append(_count(step, batch_size, precision))
        forward = counts[-1].flops * step.flops_share
    trained = [p for p in method.network.parameters() if p.requires_grad]
    state = _optimizer_bytes(method)
    if state is None:
        problems.append("Not counted: the optimizer's state, which its class creates for real parameters only.")
    frozen = sum(p.numel() for p in method.network.parameters() if not p.requires_grad)
    parameters = Parameters(sum(p.numel() for p in trained), frozen, teacher.parameters)
    buckets = sum(p.nbytes for p in trained)
    memory = Memory(_held(method.network), teacher.weights, counts[-1].gradients, state, buckets, counts[-1].saved)
    return parameters, Flops(forward / batch_size, teacher.forward), memory, problems


class _Teacher(NamedTuple):
    """Parameters of a teacher, bytes of its parameters and buffers, and one example's FLOPs, None if not counted."""

    parameters: int = 0
    weights: int = 0
    forward: float | None = 0.0


def _count_teacher(method: Method) -> tuple[_Teacher, list[str]]:
    """Count the teacher, and replace it by a stand-in; return a sentence if it cannot be counted."""
    request = method.teacher_request()
    if request is None:
        method.teacher = None
        return _Teacher(), []
    name, task, width = request.source, largest_task(method), 768
    found, problems = _Teacher(forward=None), list[str]()
    with fake_tensors():
        teacher = load_teacher(name, task)
        if teacher is None:
            problems.append(
                f"Not counted: the teacher {name}, whose files are missing; give a timm model of its size instead "
                f"(--model.{method.teacher_option} deit_base_patch16_224, for example) to count it."
            )
        else:
            inputs = empty_batch(method, task, 2).inputs
            try:
                with flop_counter() as counter:
                    (teacher.features if request.features_only else teacher)(inputs)
                forward = counter.get_total_flops() / len(inputs)
                found = _Teacher(teacher.num_parameters, _held(teacher.model), forward)
                width = int(getattr(teacher.model, "num_features", width))
            except (RuntimeError, AssertionError) as error:
                reason = str(error).splitlines()[0][:100]
                problems.append(f"Not counted: the teacher {name}, which cannot read this task's inputs ({reason}).")
    taught = task if task.is_labeled else replace(task, num_classes=method.architecture.num_classes)
    method.teacher = StandInTeacher(width, taught)
    return found, problems


def largest_task(method: Method) -> Task:
    """The task with the most classes."""
    return max(method.tasks.values(), key=lambda task: task.num_classes)


def empty_batch(method: Method, task: Task, size: int, dtype: torch.dtype = torch.float32) -> Batch:
    """A batch of zeros: images, or texts of the maximum length."""
    pixels = task.image_shape[1:]
    if task.reads_text:
        inputs = torch.ones(size, 3, task.max_len, dtype=torch.long)
    else:
        inputs = torch.zeros(size, *task.image_shape, dtype=dtype)
    if method.mix is not None:
        return Batch(inputs, torch.zeros(size, task.num_classes), task.name)
    sizes = {"segmentation": pixels, "multilabel": (task.num_classes,), "language": (task.max_len,)}
    of_example = sizes.get(task.kind, ())
    return Batch(inputs, torch.zeros(size, *of_example, dtype=torch.long), task.name)


def _held(network: nn.Module) -> int:
    """Bytes of a network's parameters and buffers; shared ones count once."""
    return stored([*network.parameters(), *network.buffers()])


def stored(tensors: Sequence[Tensor]) -> int:
    """Bytes of tensors; shared storage counts once."""
    storages = {_key(tensor): tensor.untyped_storage() for tensor in tensors}
    return sum(storage.nbytes() for storage in storages.values())


def spread(architectures: Sequence[Architecture]) -> list[Architecture]:
    """Some architectures of a set, evenly spaced in size, with the smallest and the largest."""
    ordered = sorted(set(architectures), key=lambda a: (a.depth * a.embed_dim, a.embed_dim, a.num_heads))
    places = np.linspace(0, len(ordered) - 1, min(SPREAD, len(ordered))).round().astype(int)
    return [ordered[place] for place in places]


class _Count(NamedTuple):
    """FLOPs, saved bytes, and bytes of gradients of one batch."""

    flops: float
    saved: int
    gradients: int


@fake_tensors()
def _count(step: PlannedStep, batch_size: int, precision: Precision) -> _Count:
    """Give a method its network of fake tensors, and run the forward pass of a batch."""
    method: Method = step.method
    method.network = network_of(step, precision.weights).train()
    batch = empty_batch(method, largest_task(method), batch_size, precision.weights)
    saved: dict[int, Tensor] = {}

    def note(tensor: Tensor) -> None:
        """Keep nothing: there is no backward pass, and a node that holds its own output is never freed."""
        saved[_key(tensor)] = tensor

    # Lightning disables this cache too: layers that share weights then each convert their own copy.
    autocast = torch.autocast("cpu", precision.autocast, precision.autocast is not None, cache_enabled=False)
    with flop_counter() as counter, saved_tensors_hooks(note, _no_backward), autocast:
        loss = step.loss(batch)
    real, stand_ins = step.stand_ins()  # of a pair, only the real tensor counts
    saved |= {_key(tensor): tensor for tensor in real}
    for tensor in (*method.network.parameters(), *method.network.buffers(), *stand_ins):
        saved.pop(_key(tensor), None)
    reached = sum(parameter.nbytes for parameter in _reached(loss))
    count = _Count(counter.get_total_flops(), stored(list(saved.values())), reached)
    saved.clear()  # the hook holds it, the graph holds the hook, and it holds the graph: no collector frees this ring
    return count


def _no_backward(_: None) -> Tensor:
    raise AssertionError("no backward pass is counted")


def _reached(loss: Tensor) -> Iterator[nn.Parameter]:
    """The parameters that get a gradient from a loss, each once."""
    waiting, seen = [loss.grad_fn], set()
    while waiting:
        node: Any = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            yield node.variable
        waiting += [following for following, _ in node.next_functions]


def mean_over(whole: Sequence[Architecture], some: Sequence[Architecture], costs: Sequence[float]) -> float:
    """Mean cost over a set from the costs of some of it: a constant, a multiple of L D and one of L D²."""

    def terms(architectures: Sequence[Architecture]) -> NDArray[np.float64]:
        sizes = np.array([(a.depth, a.embed_dim) for a in architectures], np.float64)
        return np.stack([np.ones(len(sizes)), sizes.prod(1) / 1e3, sizes.prod(1) * sizes[:, 1] / 1e6], axis=1)

    factors, *_ = np.linalg.lstsq(terms(some), np.asarray(costs, np.float64), rcond=None)
    return float((terms(whole) @ factors).mean())


def _key(tensor: Tensor) -> int:
    """A number that identifies a tensor's storage."""
    return int(tensor.untyped_storage()._cdata)


def _optimizer_bytes(method: Method) -> int | None:
    """Bytes of the optimizer's state, measured by one step on parameters without memory.

    Returns:
        None where the optimizer does not work on such parameters.
    """
    groups = method.trained_groups()
    for group in groups:
        group["params"] = [nn.Parameter(torch.empty(p.shape, dtype=p.dtype, device="meta")) for p in group["params"]]
        for parameter in group["params"]:
            parameter.grad = torch.empty_like(parameter)
    try:
        optimizer = method.optimizer(groups)
    except ValueError as error:
        raise UserError(f"model.optimizer: {' '.join(str(error).split())}") from error
    for group in optimizer.param_groups:
        group |= {"fused": False} if group.get("fused") else {}  # the same state, but no kernel for meta tensors
    try:
        optimizer.step()
    except (RuntimeError, NotImplementedError):
        return None
    values: list[Any] = [value for state in optimizer.state.values() for value in state.values()]
    return stored([value for value in values if isinstance(value, Tensor)])


def learngene_bytes(step: PlannedStep) -> int | None:
    """Bytes of the learngene; None without one, or if training determines its size."""
    state = step.method.network.state_dict().items()
    learngene = step.learngene({name: torch.empty(t.shape, dtype=t.dtype, device="meta") for name, t in state})
    return sum(tensor.nbytes for tensor in learngene.tensors.values()) if learngene else None
