"""Time and memory of a hypernetwork's training step and predictions."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from benchmarks.steps import (
    autocast,
    device,
    measure,
    ordinary_step,
    peak_mb,
    random_images,
    synchronize,
    training_step,
)
from lgx.architectures import ViTArchitecture
from lgx.hypernet import Hypernet, HypernetConfig, computational_graph
from lgx.hypernet.functional_forward import functional_forward, layer_inputs, meta_batch_loss
from lgx.hypernet.graph import path_lengths
from lgx.hypernet.hypernet import add_class_token
from lgx.hypernet.low_rank_tensor import LowRankTensor

LARGEST = {"conv": (64, 64, 16, 16), "low_rank": (2048, 2048, 16, 16)}
"""Decoder -> largest weight that is predicted, (out, in, height, width): those of GHN-3 and LoGAH."""

NORM_WEIGHT = 3e-5
"""Weight of the penalty on the norms of predicted parameters, as in GHN-3."""


def measure_hypernet_steps(
    architecture: ViTArchitecture,
    config: HypernetConfig,
    batch: int,
    precision: str,
    meta_batch: int = 1,
    repeats: int = 8,
    compiled: bool = False,
) -> list[dict[str, Any]]:
    """Measure a hypernetwork's training step and predictions.

    - ``ordinary_step``: the reference, a step of the same ViT.
    - ``hyper_step``: trains the hypernetwork on ``meta_batch`` copies of the architecture; its ratio is per
      architecture. ``share_graph``, ``share_encode``, ``share_decode`` and ``share_execute`` are shares of its time,
      ``factored_mb`` is the memory that the factored prediction takes, and ``dense_mb`` the memory that the same
      weights would take if their products were computed.
    - ``predict``: predicts all weights as dense tensors. ``to_products`` is its time divided by the time of the
      matrix products of the factors alone.
    - ``graph``: builds the graph without the cache.

    Args:
        architecture: The ViT.
        config: The hypernetwork.
        batch: Images of a step.
        precision: A key of :data:`~benchmarks.steps.PRECISIONS`.
        meta_batch: Architectures of a step.
        repeats: Timed rounds.
        compiled: Whether the ViT of the reference and the encoder of the hypernetwork are compiled.

    Returns:
        One row for each step, see :func:`~benchmarks.steps.measure`, with the values above.
    """
    hypernet = Hypernet(config).to(device())
    if compiled:
        hypernet.compile()
    inputs, targets = random_images(architecture, batch)
    steps = _steps(hypernet, architecture, inputs, targets, meta_batch, precision)
    steps["ordinary_step"] = ordinary_step(architecture, batch, precision, compiled)
    rows = measure(steps, reference="ordinary_step", repeats=repeats)
    rows["hyper_step"]["ratio"] /= meta_batch
    rows["hyper_step"] |= _shares(hypernet, architecture, inputs, targets, precision, repeats)
    rows["hyper_step"]["factored_mb"] = peak_mb(lambda: hypernet.predict(architecture, dense=False))
    rows["hyper_step"]["dense_mb"] = 4 * architecture.count_parameters() / 2**20
    if "products" in rows:
        rows["predict"]["to_products"] = rows["predict"]["seconds"] / rows.pop("products")["seconds"]
    return list(rows.values())


def _steps(
    hypernet: Hypernet, architecture: ViTArchitecture, inputs: Tensor, targets: Tensor, meta_batch: int, precision: str
) -> dict[str, Callable[[], object]]:
    """What is measured: the hypernetwork's step, its prediction, the graph, and the bare products of its factors."""
    with torch.no_grad():
        factors = [p for p in hypernet.predict(architecture, dense=False).values() if isinstance(p, LowRankTensor)]

    def loss() -> Tensor:
        losses, norms = meta_batch_loss(
            hypernet, [architecture] * meta_batch, inputs, lambda logits, _: F.cross_entropy(logits, targets)
        )
        return losses + NORM_WEIGHT * norms

    steps: dict[str, Callable[[], object]] = {
        "hyper_step": training_step(hypernet, loss, precision),
        "predict": torch.no_grad()(lambda: hypernet.predict(architecture)),
        "graph": lambda: _build_graph(architecture),
    }
    if factors:
        steps["products"] = lambda: [factor.to_dense() for factor in factors]
    return steps


def _build_graph(architecture: ViTArchitecture) -> None:
    path_lengths.cache_clear()
    computational_graph(architecture)


def _shares(
    hypernet: Hypernet, architecture: ViTArchitecture, inputs: Tensor, targets: Tensor, precision: str, repeats: int
) -> dict[str, float]:
    """Shares of each part in the time of forward and backward pass, without the optimizer; their sum is 1."""
    rounds = [_seconds_of_parts(hypernet, architecture, inputs, targets, precision) for _ in range(repeats + 1)][1:]
    least = {part: min(times[part] for times in rounds) for part in rounds[0]}
    return {f"share_{part}": seconds / sum(least.values()) for part, seconds in least.items()}


def _seconds_of_parts(
    hypernet: Hypernet, architecture: ViTArchitecture, inputs: Tensor, targets: Tensor, precision: str
) -> dict[str, float]:
    """Seconds of each part of one step.

    The backward pass of each part is run alone, so that it can be timed. The norms count as part of ``execute``.
    """
    clock = _Clock()
    graphs = [computational_graph(architecture, hypernet.config.convention)]
    clock.lap("graph")
    embedded = hypernet.encode(graphs)
    clock.lap("encode")
    nodes = embedded.detach().requires_grad_()
    joined = hypernet.decode(graphs, nodes, layer_inputs([architecture], inputs))
    predicted = [joined.vectors.rows, *(values for _, values in joined.dense)]
    predicted += [joined.factors.rows] if joined.products else []
    clock.lap("decode")
    (parameters,) = joined.by_name(1)
    add_class_token(architecture, parameters)
    with autocast(precision):
        loss = F.cross_entropy(functional_forward(architecture, parameters, inputs), targets)
    gradients = torch.autograd.grad(loss + NORM_WEIGHT * joined.sum_of_norms(), predicted, retain_graph=True)
    clock.lap("execute")
    torch.autograd.backward(predicted, gradients)
    clock.lap("decode")
    embedded.backward(nodes.grad)
    clock.lap("encode")
    hypernet.zero_grad()
    return clock.seconds


class _Clock:
    """Adds up the seconds of laps by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        synchronize()
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
