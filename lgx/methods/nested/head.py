"""The head of a family: fitted to the features of its slices when training ends."""

import random
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lgx.architectures import Architecture
from lgx.components.losses import balanced_weights, label_loss, label_losses, may_be_unknown, weighted_label_loss
from lgx.core.seed import run_seed
from lgx.core.task import BALANCED, IGNORE
from lgx.methods.nested.front import evaluated_batches, validated_batches

_SIZES = 4
"""Sizes that read each training example."""
_MOST_BYTES = 2**31
"""Memory of the features."""
_PENALTY = 0.01
"""Weight of the squared distance from the trained head, halved."""
_ITERATIONS = 100
_TEMPERATURES = [1 + step / 20 for step in range(81)]
"""What the logits may be divided by: from 1 to 5."""

Head = Mapping[str, Tensor]
"""Parameters of a linear layer by their names."""


class HeadInputs(NamedTuple):
    """What the head reads of some examples.

    Attributes:
        size: A size of their width.
        vectors: (n, D), float64.
        targets: Labels of the examples.
    """

    size: Architecture
    vectors: Tensor
    targets: Tensor


@lru_cache
def ends_with_linear(architecture: Architecture) -> bool:
    """Whether the logits are what one linear layer makes of one vector of each example."""
    network = architecture.build("meta").eval()
    head = network.get_submodule(architecture.head.rstrip("."))
    outputs: list[Any] = []
    with head.register_forward_hook(lambda *passed: outputs.append(passed[-1])):
        logits = network(architecture.example_input())
    return isinstance(head, nn.Linear) and logits.ndim == 2 and logits is outputs[-1]


def fitted(start: Head, loss: Callable[[Head], Tensor]) -> tuple[dict[str, Tensor], float, float]:
    """The head that minimizes a loss plus a penalty on the distance from a trained head, by L-BFGS in float64.

    A head is trained on augmented examples, and a new one by few updates; examples of an evaluation differ from these
    (Touvron et al., "Fixing the train-test resolution discrepancy", NeurIPS 2019, fine-tune the classifier on examples
    as in a test). The penalty and its weight, and L-BFGS instead of SGD, are ours.

    Args:
        start: The trained head: weight (K, D), and bias (K,) if it has one.
        loss: Loss of a head, a scalar.

    Returns:
        The head, and the sum of loss and penalty before and after.
    """
    start = {name: tensor.detach().double() for name, tensor in start.items()}
    head = {name: tensor.clone().requires_grad_() for name, tensor in start.items()}
    optimizer = torch.optim.LBFGS(head.values(), max_iter=_ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> float:
        optimizer.zero_grad()
        penalty: Any = _PENALTY / 2 * sum((tensor - start[name]).square().sum() for name, tensor in head.items())
        whole = loss(head) + penalty
        whole.backward()
        return float(whole.detach())

    before = optimizer.step(closure)
    after = closure()
    return {name: tensor.detach() for name, tensor in head.items()}, before, after


def fit_head(method: Any) -> None:
    """Fit the head to features of training examples, read as in evaluation; see :func:`fitted`.

    One head serves all sizes: every example is read by some of the trained sizes, and by as many random ones. The loss
    is the cross-entropy of the training, weighted where the training balances classes. Every process reads all
    examples, so that the head does not depend on the number of processes; they are no more than the run has trained on.

    Args:
        method: The family; its head :func:`ends_with_linear`.
    """
    prefix = method.architecture.head
    trained = _parameters(method)
    groups = _by_width(_inputs(method))
    counts = [_labels(group.targets) for group in groups]
    weights = None
    if method.task.metric == BALANCED:
        weights = balanced_weights(method.data_module().class_counts).to(method.device).double()

    def loss(head: Head) -> Tensor:
        losses = []
        for (size, vectors, targets), count in zip(groups, counts, strict=True):
            cut = method.tensors_of(size, head)
            logits = F.linear(vectors, cut[f"{prefix}weight"], cut.get(f"{prefix}bias"))
            if weights is None:
                mean = label_loss(logits, targets, method.label_smoothing)
            else:
                mean = weighted_label_loss(logits, targets, weights, method.label_smoothing)
            losses.append(mean * (count / sum(counts)))
        return torch.stack(losses).sum()

    head, before, after = fitted(trained, loss)
    method.print(f"head       fitted to training examples without augmentation: loss {before:.4g} -> {after:.4g}")
    with torch.no_grad():
        for name, parameter in trained.items():
            parameter.copy_(method.trainer.strategy.broadcast(head[name]))


@torch.no_grad()
def fit_temperature(method: Any) -> None:
    """Divide the head by the temperature that gives the trained sizes the lowest mean loss in validation.

    A fitted head is too sure of its answers to new examples: the network has trained on those that it is fitted to. A
    temperature changes no answer (Guo et al., "On Calibration of Modern Neural Networks", ICML 2017). That it is at
    least 1, and one for all sizes, is ours. Without validation the head stays as it is.

    Args:
        method: The family; its head :func:`ends_with_linear`.
    """
    if not method.trainer.enable_validation:
        return
    losses = torch.zeros(len(_TEMPERATURES), dtype=torch.double, device=method.device)
    for batch in validated_batches(method, "fitting the temperature:"):
        for size in method.measured:
            logits = method.logits(size, batch.inputs).double()
            losses += torch.stack([label_losses(logits / each, batch.targets).sum() for each in _TEMPERATURES])
    losses = method.trainer.strategy.reduce(losses, reduce_op="sum")
    temperature = _TEMPERATURES[int(losses.argmin())]
    method.print(f"head       divided by {temperature:g}, the temperature with the lowest loss in validation")
    for parameter in _parameters(method).values():
        parameter.div_(temperature)


def _labels(targets: Tensor) -> int:
    """Number of known labels."""
    return int((targets != IGNORE).sum()) if may_be_unknown(targets) else len(targets)


def _parameters(method: Any) -> dict[str, nn.Parameter]:
    """The parameters of the head."""
    prefix = method.architecture.head
    return {name: each for name, each in method.parameters_by_name.items() if name.startswith(prefix)}


@torch.no_grad()
def _inputs(method: Any) -> Iterator[HeadInputs]:
    """Features of the training examples, each read by some sizes; of as many at once as in one process."""
    prefix = method.architecture.head.rstrip(".")
    data = method.data_module()
    trainer = method.trainer
    trained = trainer.global_step * trainer.accumulate_grad_batches * data.batch_size * trainer.world_size
    most = min(trained, _MOST_BYTES // (8 * _SIZES * method.architecture.embed_dim))
    read: list[Tensor] = []
    loader = data.reference_dataloader(most, is_shared=False)
    batches = evaluated_batches(method, loader, "fitting the head:")
    together = iter(lambda: [*islice(batches, trainer.world_size)], [])
    for number, several in enumerate(together):
        examples = method.joined(several)
        targets = torch.cat([batch.targets for batch in several])
        generator = random.Random(repr((run_seed(), number)))
        sizes = [*method.measured, *generator.choices(method.grid, k=len(method.measured))]
        stride = -(-len(sizes) // _SIZES)
        for index, size in enumerate(sizes):
            part = slice(index % stride, None, stride)
            if index % stride >= len(examples):
                continue
            head = method.prepare(size).get_submodule(prefix)
            with head.register_forward_pre_hook(lambda _, passed: read.append(passed[0].double())):
                method.logits(size, examples[part])
            yield HeadInputs(size, read.pop(), targets[part])


def _by_width(parts: Iterator[HeadInputs]) -> list[HeadInputs]:
    """The features of all sizes of a width in one."""
    groups: dict[int, list[HeadInputs]] = {}
    for each in parts:
        groups.setdefault(each.vectors.shape[1], []).append(each)
    return [
        HeadInputs(group[0].size, torch.cat([each.vectors for each in group]), torch.cat([e.targets for e in group]))
        for group in groups.values()
    ]
