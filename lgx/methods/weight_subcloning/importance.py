"""How important the layers, heads, neurons and dimensions of a network are."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from lgx.architectures import Architecture
from lgx.architectures.axes import Axis, input_dim, values_by_part
from lgx.architectures.parameter_axes import axes_of
from lgx.core.progress import tracked

STREAM = ("embed", "")
"""Key of the residual stream."""


@dataclass(frozen=True)
class Importance:
    """Importance of the parts of a network.

    Attributes:
        elements: Importance of each element of an axis, by (kind, owner) of the axis: the residual stream, the query
            heads of each attention, the neurons of each MLP.
        layers: Importance of each layer, front to back; None where it was not measured.
    """

    elements: Mapping[tuple[str, str], Tensor]
    layers: Tensor | None = None


def of_weights(tensors: Mapping[str, Tensor], architecture: Architecture) -> Importance:
    """Importance from weights alone: the norm of an element's weights, relative to its neighbors.

    For every matrix that has the axis, the L2 norm of each element's row or column is divided by the mean over the
    axis; the importance is the mean over the matrices. A head of keys and values counts for each query head of its
    group. (Ours; the paper measures activations.)
    """
    sums: dict[tuple[str, str], Tensor] = {}
    for name, tensor in tensors.items():
        if tensor.ndim < 2:
            continue
        for dim, axis in enumerate(axes_of(architecture, name)):
            if axis is None or axis.kind == "head":
                continue
            norms = values_by_part(tensor.double().transpose(0, dim).flatten(1).norm(dim=1), axis).mean(0)
            key = (axis.kind, axis.owner)
            share = _of_query_heads(norms, axis, architecture)
            share = share / share.mean().clamp_min(1e-12)
            sums[key] = sums.get(key, torch.zeros_like(share)) + share
    return Importance(sums)


def _of_query_heads(values: Tensor, axis: Axis, architecture: Architecture) -> Tensor:
    """Values of heads of keys or values, (groups * D,), once for each query head, (heads * D,); others as they are."""
    if axis.kind != "heads" or axis.heads == axis.groups == architecture.num_heads or not axis.groups:
        return values
    by_group = values.reshape(axis.groups, -1, axis.size // axis.heads)
    return by_group.expand(-1, architecture.num_heads // axis.groups, -1).flatten()


@torch.no_grad()
def on_inputs(model: Any, architecture: Architecture, inputs: Tensor) -> Importance:
    """Importance from what the network computes on images or texts.

    Elements: the mean magnitude of their activations over inputs and tokens, without padding (Samragh et al., 2023).
    The residual stream has one ranking for all layers: the mean over the inputs of all layers and the output of the
    last, each divided by its mean, so that the later layers with their larger activations do not decide alone.

    Layers: the mean over tokens of ``||f(x)|| / ||x + f(x)||``, the relative magnitude of what a layer adds (the
    paper's measure).

    Args:
        model: The network, in eval mode.
        architecture: Its description.
        inputs: Normalized images, (N, C, H, W), or texts, (N, 3, L).
    """
    sums: dict[tuple[str, str], Tensor] = {}
    layers = torch.zeros(architecture.depth, dtype=torch.float64)
    for batch in tracked(inputs.split(16), "importance"):
        real = real_tokens(architecture, batch)
        with _recorded(model, architecture) as seen:
            model(batch)
        for key, values in seen.items():
            for value in values:
                mean = value.abs().double().flatten(0, -2)[real].mean(0)
                share = mean / mean.mean().clamp_min(1e-300) * len(batch)  # of an axis without activations 0, not NaN
                sums[key] = sums.get(key, torch.zeros_like(share)) + share
        stream = [value.double() for value in seen[STREAM]]
        for layer, (before, after) in enumerate(pairwise(stream)):
            ratio = (after - before).norm(dim=-1) / after.norm(dim=-1).clamp_min(1e-12)
            layers[layer] += ratio.flatten()[real].mean() * len(batch)
    return Importance(sums, layers / len(inputs))


@torch.no_grad()
def influence(model: Any, architecture: Architecture, inputs: Tensor) -> Tensor:
    """Block influence of each layer, front to back: 1 - the mean cosine of what it reads and what it returns.

    The mean is over all tokens of the images or texts, see :func:`on_inputs`, without padding.

    Men et al., "ShortGPT: Layers in Large Language Models are More Redundant Than You Expect", 2024,
    https://arxiv.org/abs/2403.03853
    """
    similarity = torch.zeros(architecture.depth, dtype=torch.float64)
    tokens = 0
    for batch in tracked(inputs.split(16), "influence"):
        real = real_tokens(architecture, batch)
        with _recorded(model, architecture, parts=False) as seen:
            model(batch)
        stream = [value.double().flatten(0, -2)[real] for value in seen[STREAM]]
        similarity += torch.stack([cosine_similarity(*layer, dim=-1).sum() for layer in pairwise(stream)])
        tokens += len(stream[0])
    return 1 - similarity / tokens


def real_tokens(architecture: Architecture, inputs: Tensor) -> Any:
    """Which of all tokens of texts are no padding, (N * L,); all tokens of images."""
    return inputs[:, 1].bool().flatten() if architecture.reads_text else slice(None)


@contextmanager
def _recorded(
    model: nn.Module, architecture: Architecture, parts: bool = True
) -> Iterator[dict[tuple[str, str], list[Tensor]]]:
    """Record the residual stream at the border of each layer; with ``parts`` also what reads heads or neurons."""
    seen: dict[tuple[str, str], list[Tensor]] = {STREAM: []}
    blocks = architecture.blocks(model)
    parameters = dict(model.named_parameters())  # of tied parameters, one name

    def record(key: tuple[str, str], _module: nn.Module, values: Tensor | tuple[Tensor, ...]) -> None:
        """Keep what a module reads, or what a layer returns, (B, N, D)."""
        seen.setdefault(key, []).append(values if isinstance(values, Tensor) else values[0])

    with ExitStack() as hooks:
        for block in blocks:
            hooks.enter_context(block.register_forward_pre_hook(partial(record, STREAM)))
        hooks.enter_context(blocks[-1].register_forward_hook(lambda module, _, output: record(STREAM, module, output)))
        for name, module in model.named_modules() if parts else ():  # what reads heads of an attention or neurons
            dim = input_dim(module) if f"{name}.weight" in parameters else None
            axis = None if dim is None else axes_of(architecture, f"{name}.weight")[dim]
            if axis is not None and axis.kind in ("heads", "hidden"):
                hooks.enter_context(module.register_forward_pre_hook(partial(record, (axis.kind, axis.owner))))
        yield seen
