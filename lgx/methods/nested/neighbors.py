"""How well the vectors of small networks find the neighbors that the ancestor's vectors find."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from lgx.architectures import Architecture
from lgx.components.features import gathered
from lgx.methods.nested.front import validated_batches

NEIGHBOR = "nn_top1"
"""Share of examples whose nearest neighbor among the small network's vectors is that among the ancestor's."""
_MOST = 2_000
"""Most examples that are measured."""
_LEAST = 12
"""Fewest examples that have ten neighbors and one more."""
_NEIGHBORS, _QUERIES = 10, 1_024


@torch.no_grad()
def agreements(
    method: Any, sizes: Sequence[Architecture], whole: Mapping[str, Tensor] | None = None
) -> dict[Architecture, dict[str, float]]:
    """Compare the vectors of held-out examples with the ancestor's, by size.

    ``nn_top1`` is the share of examples with the ancestor's nearest neighbor, ``nn_top10`` the mean share of its ten
    nearest. For ``cross_nn`` the small network's vectors ask an index of the ancestor's: the share that finds the
    ancestor's own answer. An example is never its own neighbor. ``cosine`` is the mean similarity to the ancestor.

    Args:
        method: The backbones, with the weights of their run and the ancestor.
        sizes: The sizes; those whose vectors are not finite are left out.
        whole: Other parameters of the whole network, by name.

    Returns:
        Scores of each size by name, with the number of examples ``n``; empty if there are too few examples.
    """
    processes = method.trainer.world_size
    none = torch.empty(0, method.teacher.width)  # a process may have no example
    wanted = [none]
    vectors = {size: [none] for size in sizes}
    for batch in validated_batches(method, f"measuring {len(sizes)} sizes:"):
        wanted.append(_normalized(method.ancestor_features(batch).summary))
        for size in sizes:
            vectors[size].append(_normalized(method.features_of(size, batch, whole).summary))
        if sum(map(len, wanted)) >= math.ceil(_MOST / processes):
            break
    shares = gathered((torch.cat(wanted), *(torch.cat(vectors[size]) for size in sizes)), processes)
    index, *mapped = (torch.cat(parts) for parts in zip(*shares, strict=True))
    if len(index) < _LEAST:
        method.print(f"front      not measured: {len(index)} held-out examples, expected at least {_LEAST}")
        return {}
    truth = _nearest(index, index)
    finite = {size: each for size, each in zip(sizes, mapped, strict=True) if bool(each.isfinite().all())}
    return {size: _scores(each, index, truth) for size, each in finite.items()}


def _scores(vectors: Tensor, index: Tensor, truth: Tensor) -> dict[str, float]:
    """The scores of vectors (N, T), given the ancestor's and their ten nearest neighbors, (N, 10)."""
    neighbors, crossed = _nearest(vectors, vectors), _nearest(vectors, index)
    shared = (neighbors[:, :, None] == truth[:, None]).any(dim=1)
    values = {
        NEIGHBOR: neighbors[:, 0] == truth[:, 0],
        "nn_top10": shared,
        "cross_nn": crossed[:, 0] == truth[:, 0],
        "cosine": (vectors * index).sum(dim=1),
    }
    return {name: float(value.float().mean()) for name, value in values.items()} | {"n": len(index)}


def _nearest(queries: Tensor, index: Tensor) -> Tensor:
    """The ten nearest of the vectors of other examples, (N, 10)."""
    parts = []
    for start in range(0, len(queries), _QUERIES):
        similarity = queries[start : start + _QUERIES] @ index.T
        similarity[:, start:].fill_diagonal_(-math.inf)
        parts.append(similarity.topk(_NEIGHBORS).indices)
    return torch.cat(parts)


def _normalized(vectors: Tensor) -> Tensor:
    return F.normalize(vectors.float(), dim=1).cpu()
