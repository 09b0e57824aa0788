"""Statistics of a network's parameters before and after training (TAL, rebuttal, Table 4)."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor

from lgx.artifacts.pretrained import load_pretrained
from lgx.errors import UserError

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")

Parameters = Mapping[str, Tensor]


class ParameterComparison(NamedTuple):
    """Statistics of one network before and after training; each takes all parameters as one vector.

    Attributes:
        sparsity_start: Share of parameters close to zero before training.
        sparsity_trained: Share of parameters close to zero after training.
        change_magnitude: ‖w1 - w0‖ / ‖w0‖. It is relative, as in the rebuttal, so that networks of different sizes and
            scales compare; 1 is the distance to zero.
        diversity: Mean cosine distance over all pairs of seeds, in [0, 2]; None with one seed.
    """

    sparsity_start: float
    sparsity_trained: float
    change_magnitude: float
    diversity: float | None


def compare_parameters(start: str, trained: Sequence[str], threshold: float) -> ParameterComparison:
    """Compare networks of one architecture.

    Args:
        start: The network before training, see :func:`read_parameters`.
        trained: The network after training, one for each seed. The first is compared with ``start``.
        threshold: Parameters whose absolute value is below it count as close to zero.

    Raises:
        UserError: If a network cannot be read or the networks differ in architecture.
    """
    networks = {name: read_parameters(name) for name in (start, *trained)}
    shapes = {name: {key: tuple(tensor.shape) for key, tensor in found.items()} for name, found in networks.items()}
    if other := next((name for name in trained if shapes[name] != shapes[start]), None):
        names = sorted(key for key, _ in shapes[start].items() ^ shapes[other].items())
        raise UserError(
            f"{start} and {other} are of different architectures: they differ in {names[0]}; give networks of one "
            f"architecture"
        )
    before, *after = (_vector(networks[name]) for name in (start, *trained))
    return statistics_of(before, after, threshold)


def read_parameters(name: str) -> Parameters:
    """Read the parameters of one network, without batch norm's statistics.

    Args:
        name: A source of :func:`~lgx.artifacts.pretrained.load_pretrained`.

    Raises:
        UserError: If it cannot be read, is not a network, or its parameters are all zero.
    """
    tensors = load_pretrained(name).tensors
    parameters = {k: v for k, v in tensors.items() if v.is_floating_point() and not k.endswith(_STATISTICS)}
    if not any(tensor.count_nonzero() for tensor in parameters.values()):
        raise UserError(f"{name}: all its parameters are zero, or there are none; give a network's weights")
    return parameters


def statistics_of(start: Tensor, trained: Sequence[Tensor], threshold: float) -> ParameterComparison:
    """The statistics of vectors of P parameters.

    Args:
        start: Parameters before training, shape (P,).
        trained: Parameters after training, one for each seed, shape (P,) each.
        threshold: See :func:`compare_parameters`.
    """
    directions = [vector / vector.norm() for vector in trained]
    distances = [1 - float(one @ other) for one, other in combinations(directions, 2)]
    return ParameterComparison(
        sparsity_start=float((start.float().abs() < threshold).double().mean()),
        sparsity_trained=float((trained[0].float().abs() < threshold).double().mean()),
        change_magnitude=float((trained[0] - start).norm() / start.norm()),
        diversity=fmean(distances) if distances else None,
    )


def _vector(parameters: Parameters) -> Tensor:
    return torch.cat([parameters[name].flatten().double() for name in sorted(parameters)])
