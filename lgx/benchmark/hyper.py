"""What a hypernetwork's steps cost."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from lgx.architectures import ViTArchitecture
from lgx.benchmark.steps import autocast, device, images, ordinary_step, training_step
from lgx.benchmark.timing import measure, peak_mb
from lgx.hypernet import Hypernet, HypernetConfig, computational_graph
from lgx.hypernet.architecture_graph import clear_distance_cache
from lgx.hypernet.functional_forward import functional_forward
from lgx.hypernet.low_rank_tensor import LowRankTensor, frobenius_norm
from lgx.hypernet.meta_batch import meta_batch_loss

GAMMA = 3e-5


def measure_hyper(
    architecture: ViTArchitecture, config: HypernetConfig, batch: int, meta_batch: int, precision: str, repeats: int
) -> list[dict[str, Any]]:
    """Rows ordinary_step, hyper_step, predict and graph.

    ``hyper_step`` trains a hypernetwork on ``meta_batch`` copies of the architecture; its ratio is per architecture.
    It has the shares of graph, encode, decode and execute in its time, the memory that the factored prediction takes
    (``factored_mb``) and the memory that dense weights, which it never forms, would (``dense_mb``). ``predict`` gives
    all weights dense; ``to_products`` compares it with the bare products of their factors. ``graph`` is built cold.
    """
    hypernet = Hypernet(config).to(device())
    inputs, targets = images(architecture, batch)

    def loss() -> Tensor:
        losses, norms = meta_batch_loss(
            hypernet, [architecture] * meta_batch, inputs, lambda logits: F.cross_entropy(logits, targets)
        )
        return losses + GAMMA * norms

    def predict() -> None:
        with torch.no_grad():
            hypernet.predict(architecture)

    def graph() -> None:
        clear_distance_cache()
        computational_graph(architecture)

    steps: dict[str, Callable[[], object]] = {
        "ordinary_step": ordinary_step(architecture, batch, precision),
        "hyper_step": training_step(hypernet, loss, precision),
        "predict": predict,
        "graph": graph,
    }
    with torch.no_grad():
        factors = [p for p in hypernet.predict(architecture, dense=False).values() if isinstance(p, LowRankTensor)]
    if factors:
        steps["products"] = lambda: [factor.to_dense() for factor in factors]
    costs = measure(steps, reference="ordinary_step", repeats=repeats)
    extra: dict[str, dict[str, float]] = {
        "hyper_step": {
            **_shares(hypernet, architecture, inputs, targets, precision, repeats),
            "factored_mb": peak_mb(lambda: hypernet.predict(architecture, dense=False)),
            "dense_mb": 4 * architecture.count_parameters() / 2**20,
        },
        "predict": {"to_products": costs["predict"].seconds / costs["products"].seconds} if factors else {},
    }
    return [
        {
            "what": what,
            "seconds": cost.seconds,
            "ratio": cost.ratio / (meta_batch if what == "hyper_step" else 1),
            "peak_mb": cost.peak_mb,
            **extra.get(what, {}),
        }
        for what, cost in costs.items()
        if what != "products"
    ]


def _shares(
    hypernet: Hypernet, architecture: ViTArchitecture, inputs: Tensor, targets: Tensor, precision: str, repeats: int
) -> dict[str, float]:
    """Shares of forward and backward, without the optimizer; the norms belong to execute. Their sum is 1."""
    rounds = [_parts(hypernet, architecture, inputs, targets, precision) for _ in range(repeats + 1)][1:]
    least = {part: min(times[part] for times in rounds) for part in rounds[0]}
    return {f"share_{part}": seconds / sum(least.values()) for part, seconds in least.items()}


def _parts(
    hypernet: Hypernet, architecture: ViTArchitecture, inputs: Tensor, targets: Tensor, precision: str
) -> dict[str, float]:
    """One step cut where embeddings and parameters pass from part to part."""
    clock = _Clock()
    graphs = [computational_graph(architecture, hypernet.config.convention)]
    clock.lap("graph")
    embedded = hypernet.encode(graphs)
    clock.lap("encode")
    nodes = embedded.detach().requires_grad_()
    (parameters,) = hypernet.decode(graphs, nodes, dense=False)
    parameters["cls_token"] = inputs.new_zeros(1, 1, architecture.embed_dim)
    clock.lap("decode")
    cut = {name: _cut(parameter) for name, parameter in parameters.items()}
    with autocast(precision):
        loss = F.cross_entropy(functional_forward(architecture, cut, inputs), targets)
    (loss + GAMMA * torch.stack([frobenius_norm(p) for p in cut.values()]).sum()).backward()
    clock.lap("execute")
    pairs = [pair for name in cut for pair in zip(_tensors(parameters[name]), _tensors(cut[name]), strict=True)]
    pairs = [(whole, part) for whole, part in pairs if whole.requires_grad]
    torch.autograd.backward([whole for whole, _ in pairs], [part.grad for _, part in pairs])
    clock.lap("decode")
    embedded.backward(nodes.grad)
    clock.lap("encode")
    hypernet.zero_grad()
    return clock.seconds


def _tensors(parameter: Tensor) -> tuple[Tensor, ...]:
    return (parameter.a, parameter.b) if isinstance(parameter, LowRankTensor) else (parameter,)


def _cut(parameter: Tensor) -> Tensor:
    first, *second = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in _tensors(parameter)]
    return LowRankTensor(first, second[0]) if second else first


class _Clock:
    """Sums of laps by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def lap(self, name: str) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        now = time.perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now
