"""The head of a family: fitted to the features of its slices when training ends."""

import random
from collections.abc import Iterator
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lgx.architectures import Architecture
from lgx.components.losses import label_loss
from lgx.core.seed import run_seed
from lgx.methods.nested.front import evaluated_batches

_SIZES = 4
"""Sizes that read each training example."""
_MOST_BYTES = 2**31
"""Memory of the features."""
PENALTY = 0.01
"""Weight of the squared distance from the trained head, halved."""
ITERATIONS = 100


class Features(NamedTuple):
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


def fit_head(method: Any) -> None:
    """Fit the head to features of the training examples, read as in evaluation; the other parameters are frozen.

    A head is trained on augmented examples, and a new one by few updates; examples of an evaluation differ from these
    (Touvron et al., "Fixing the train-test resolution discrepancy", NeurIPS 2019, train the classifier again on them).
    One head serves all sizes: every example is read by some of the trained sizes, and by as many random ones. The loss
    is that of training, plus a penalty on the distance from the trained head. L-BFGS minimizes it. Every process reads
    all examples, in float64, so that the head does not depend on the number of processes.

    Args:
        method: The family; its head :func:`ends_with_linear`.
    """
    prefix = method.architecture.head
    trained = {name: each for name, each in method.parameters_by_name.items() if name.startswith(prefix)}
    start = {name: parameter.detach().double() for name, parameter in trained.items()}
    head = {name: tensor.clone().requires_grad_() for name, tensor in start.items()}
    groups = _by_width(_features(method))
    count = sum(len(group.targets) for group in groups)
    optimizer = torch.optim.LBFGS(head.values(), max_iter=ITERATIONS, line_search_fn="strong_wolfe")

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss: Any = PENALTY / 2 * sum((tensor - start[name]).square().sum() for name, tensor in head.items())
        for size, vectors, targets in groups:
            cut = method.tensors_of(size, head)
            logits = F.linear(vectors, cut[f"{prefix}weight"], cut.get(f"{prefix}bias"))
            loss = loss + label_loss(logits, targets, method.label_smoothing) * (len(targets) / count)
        loss.backward()
        return cast(Tensor, loss.detach())

    losses = [float(optimizer.step(closure)), float(closure())]
    method.print("head       fitted to training examples without augmentation: loss {:.4g} -> {:.4g}".format(*losses))
    with torch.no_grad():
        for name, parameter in trained.items():
            parameter.copy_(method.trainer.strategy.broadcast(head[name]))


@torch.no_grad()
def _features(method: Any) -> Iterator[Features]:
    """Features of the training examples, each read by some sizes; of as many at once as in one process."""
    prefix = method.architecture.head.rstrip(".")
    most = _MOST_BYTES // (8 * _SIZES * method.architecture.embed_dim)
    inputs: list[Tensor] = []
    loader = method.data_module().reference_dataloader(most, is_shared=False)
    batches = evaluated_batches(method, loader, "fitting the head:")
    together = iter(lambda: [*islice(batches, method.trainer.world_size)], [])
    for number, several in enumerate(together):
        examples = method.joined(several)
        targets = torch.cat([batch.targets for batch in several])
        generator = random.Random(repr((run_seed(), 0, number)))
        sizes = [*method.measured, *generator.choices(method.grid, k=len(method.measured))]
        stride = -(-len(sizes) // _SIZES)
        for index, size in enumerate(sizes):
            part = slice(index % stride, None, stride)
            if index % stride >= len(examples):
                continue
            head = method.prepare(size).get_submodule(prefix)
            with head.register_forward_pre_hook(lambda _, passed: inputs.append(passed[0].double())):
                method.logits(size, examples[part])
            yield Features(size, inputs.pop(), targets[part])


def _by_width(features: Iterator[Features]) -> list[Features]:
    """The features of all sizes of a width in one."""
    groups: dict[int, list[Features]] = {}
    for each in features:
        groups.setdefault(each.vectors.shape[1], []).append(each)
    return [
        Features(group[0].size, torch.cat([each.vectors for each in group]), torch.cat([e.targets for e in group]))
        for group in groups.values()
    ]
