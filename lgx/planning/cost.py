"""What one step of a run costs: FLOPs, and the memory that it takes on each GPU."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from lgx.architectures import Architecture
from lgx.core.batch import Batch, Task
from lgx.hypernet.functional_forward import skeleton
from lgx.methods.base import Method
from lgx.methods.hypernetworks.base import HypernetMethod
from lgx.planning.networks import (
    Guide,
    RealPredictions,
    ancestor_name,
    fake_tensors,
    load_ancestor,
    network_of,
    set_guide,
    wants_features,
)
from lgx.planning.precision import PRECISIONS, Precision

SPREAD = 4
"""Architectures of a set whose cost is counted; the others' follows from theirs."""


@dataclass(frozen=True)
class StepCost:
    """What training costs, all on one GPU.

    Attributes:
        trained: Parameters that are trained.
        frozen: Parameters of the network that are not.
        forward: FLOPs of one example's forward pass, without an ancestor's.
        own: FLOPs that a forward pass takes whatever its batch: those of a hypernetwork itself.
        weights: Bytes of the network's parameters and buffers.
        gradients: Bytes of the gradients of one step.
        all_gradients: Bytes of the gradients of all that is trained.
        activations: Bytes that the backward pass of a batch needs; of the largest architecture of a set.
    """

    trained: int
    frozen: int
    forward: float
    own: float
    weights: int
    gradients: int
    all_gradients: int
    activations: int


@dataclass(frozen=True)
class AncestorCost:
    """What an ancestor that guides the training costs.

    Attributes:
        parameters: Its parameters.
        weights: Bytes of its parameters and buffers.
        forward: FLOPs of one example's forward pass.
        width: Width of its features.
    """

    parameters: int = 0
    weights: int = 0
    forward: float = 0.0
    width: int = 768


def ancestor_cost(method: Method) -> tuple[AncestorCost, str | None]:
    """What the ancestor costs, and why it is not counted where it is not."""
    name = ancestor_name(method)
    if name is None:
        return AncestorCost(), None
    task = largest_task(method)
    with fake_tensors():
        ancestor = load_ancestor(name, task)
        if ancestor is None:
            return AncestorCost(), (
                f"Not counted: the ancestor {name}, whose files are not here; name a model of timm in its place "
                f"(--model.ancestor deit_base_patch16_224, say) to count one of that size."
            )
        model = ancestor.model
        inputs = empty_batch(method, task, 2).inputs
        try:
            with FlopCounterMode(display=False) as counter:
                (ancestor.features if wants_features(method) else ancestor)(inputs)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0][:100]
            return AncestorCost(), f"Not counted: the ancestor {name}, which cannot read this task's inputs ({reason})."
    parameters, width = sum(p.numel() for p in model.parameters()), int(getattr(model, "num_features", 768))
    return AncestorCost(parameters, held(model), counter.get_total_flops() / len(inputs), width), None


def step_cost(method: Method, batch_size: int, precision: Precision, ancestor_width: int) -> StepCost:
    """Count what a step costs, by running its forward pass on fake tensors.

    A hypernetwork's descendant is another one at each step. FLOPs of a transformer of L layers and width D are a
    constant, a multiple of L D and one of L D²: they are counted for some architectures of the set, and their mean over
    the set follows. Memory is that of the largest.

    Args:
        method: The method, which knows its tasks; gets its network.
        batch_size: Examples of a batch.
        precision: Types of numbers.
        ancestor_width: Width of the features of the ancestor that guides it.
    """
    set_guide(method, Guide(ancestor_width).for_task(largest_task(method)) if ancestor_name(method) else None)
    if isinstance(method, HypernetMethod):
        forward, own = _flops_of_set(method)
        whole, method.set = list(method.set), spread(method.set)[-1:]
        count = _count_fake(method, batch_size, precision)
        method.set = whole
    else:
        count = _count_fake(method, batch_size, precision)
        forward, own = count.flops / batch_size, 0.0
    trained = [p for p in method.network.parameters() if p.requires_grad]
    return StepCost(
        trained=sum(p.numel() for p in trained),
        frozen=sum(p.numel() for p in method.network.parameters() if not p.requires_grad),
        forward=forward,
        own=own,
        weights=held(method.network),
        gradients=count.gradients,
        all_gradients=sum(p.nbytes for p in trained),
        activations=count.saved,
    )


def _flops_of_set(method: HypernetMethod) -> tuple[float, float]:
    """FLOPs of one example through the architectures of a step, and of what a step does whatever its batch.

    Both are means over the set. One and two examples tell them apart.
    """
    method.network = network_of(method).train()
    whole, chosen = list(method.set), spread(method.set)
    one_and_two = []
    for architecture in chosen:
        method.set = [architecture]
        one_and_two.append([_count(method, size, PRECISIONS["32"]).flops for size in (1, 2)])
    method.set = whole
    each = mean_over(whole, chosen, [two - one for one, two in one_and_two])
    return each, mean_over(whole, chosen, [2 * one - two for one, two in one_and_two])


def largest_task(method: Method) -> Task:
    """The task with the most classes."""
    return max(method.tasks.values(), key=lambda task: task.num_classes)


def empty_batch(method: Method, task: Task, size: int, dtype: torch.dtype = torch.float32) -> Batch:
    """A batch of zeros: black images, or texts of the greatest length."""
    pixels = (task.img_size, task.img_size)
    if task.kind == "text":
        inputs = torch.zeros(size, task.max_len, dtype=torch.long)
    else:
        inputs = torch.zeros(size, task.in_chans, *pixels, dtype=dtype)
    if method.mix is not None:
        return Batch(inputs, torch.zeros(size, task.num_classes), task.name)
    shape = (size, *pixels) if task.kind == "segmentation" else (size,)
    return Batch(inputs, torch.zeros(shape, dtype=torch.long), task.name)


def held(network: nn.Module) -> int:
    """Bytes of a network's parameters and buffers, shared ones once."""
    return stored([*network.parameters(), *network.buffers()])


def stored(tensors: Sequence[Tensor]) -> int:
    """Bytes of tensors, what several of them share once."""
    storages = {_key(tensor): tensor.untyped_storage() for tensor in tensors}
    return sum(storage.nbytes() for storage in storages.values())


def spread(architectures: Sequence[Architecture], count: int = SPREAD) -> list[Architecture]:
    """Some different architectures of a set, evenly spaced in size, the smallest and the largest among them."""
    ordered = sorted(set(architectures), key=lambda a: (a.depth * a.embed_dim, a.embed_dim, a.num_heads))
    places = np.linspace(0, len(ordered) - 1, min(count, len(ordered))).round().astype(int)
    return [ordered[place] for place in places]


class _Count(NamedTuple):
    """What one batch takes: FLOPs, bytes saved, bytes of gradients."""

    flops: float
    saved: int
    gradients: int


def _count_fake(method: Method, batch_size: int, precision: Precision) -> _Count:
    """Give a method its network of fake tensors, and run a batch through it."""
    with fake_tensors():
        method.network = network_of(method, precision.weights).train()
        return _count(method, batch_size, precision)


def _count(method: Method, batch_size: int, precision: Precision) -> _Count:
    """Run the forward pass of one batch, within :func:`fake_tensors` or on real tensors."""
    if isinstance(method, HypernetMethod):
        with unset_fake_temporarily():
            skeleton(method.set[0].replace(num_classes=1))  # kept from then on: fake tensors cannot build it
    batch = empty_batch(method, largest_task(method), batch_size, precision.weights)
    saved: dict[int, Tensor] = {}

    def note(tensor: Tensor) -> None:
        """Keep nothing for a backward pass, of which there is none: a node that holds its own output never dies."""
        saved[_key(tensor)] = tensor

    # As Lightning does: without the cache, so that layers which share weights each have their own converted copy.
    autocast = torch.autocast("cpu", precision.autocast, precision.autocast is not None, cache_enabled=False)
    with FlopCounterMode(display=False) as counter, saved_tensors_hooks(note, _no_backward), autocast:
        loss = method.training_losses(batch)["loss"]
    known: list[Tensor] = [*method.network.parameters(), *method.network.buffers()]
    if isinstance(method.network, RealPredictions):  # what it predicts is kept once, not as real and as fake tensors
        known += method.network.taken_for
        saved |= {_key(tensor): tensor for tensor in method.network.predicted}
    for tensor in known:
        saved.pop(_key(tensor), None)
    reached = sum(parameter.nbytes for parameter in _reached(loss))
    count = _Count(counter.get_total_flops(), stored(list(saved.values())), reached)
    saved.clear()  # the hook holds it, the graph the hook, and it the graph: a ring that no collector sees
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
    """Mean cost over a set from the costs of some of it: a constant, a multiple of L D and one of L D².

    Args:
        whole: The set.
        some: What :func:`spread` chose of it.
        costs: What those cost.
    """

    def terms(architectures: Sequence[Architecture]) -> NDArray[np.float64]:
        sizes = np.array([(a.depth, a.embed_dim) for a in architectures], np.float64)
        return np.stack([np.ones(len(sizes)), sizes.prod(1) / 1e3, sizes.prod(1) * sizes[:, 1] / 1e6], axis=1)

    factors, *_ = np.linalg.lstsq(terms(some), np.asarray(costs, np.float64), rcond=None)
    return float((terms(whole) @ factors).mean())


def _key(tensor: Tensor) -> int:
    """What tensors of one storage have in common."""
    return int(tensor.untyped_storage()._cdata)
