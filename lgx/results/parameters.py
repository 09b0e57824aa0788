"""Statistics of a network's parameters before and after training (TAL, rebuttal, Table 4)."""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from statistics import fmean
from typing import NamedTuple

import torch
from torch import Tensor

from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.safetensors_files import read_safetensors
from lgx.artifacts.sources import kind_of
from lgx.errors import UserError

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")

Parameters = Mapping[str, Tensor]


class ParameterComparison(NamedTuple):
    """Statistics of one network before and after training.

    Attributes:
        sparsity_start: Share of parameters close to zero before training.
        sparsity_trained: Share of parameters close to zero after training.
        change_magnitude: Relative distance between the two.
        diversity: Mean cosine distance between seeds; None with one seed.
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
    check_alike(networks)
    before, after = networks[start], networks[trained[0]]
    return ParameterComparison(
        sparsity_start=sparsity(before, threshold),
        sparsity_trained=sparsity(after, threshold),
        change_magnitude=change_magnitude(before, after),
        diversity=diversity([networks[name] for name in trained]) if len(trained) > 1 else None,
    )


def read_parameters(name: str) -> Parameters:
    """Read the parameters of one network, without batch norm's statistics.

    Args:
        name: A source of :func:`~lgx.artifacts.pretrained.load_pretrained`, or a safetensors file of weights alone.

    Raises:
        UserError: If it cannot be read, is not a network, or its parameters are all zero.
    """
    bare = kind_of(name) == "weights" and name.endswith(".safetensors")
    tensors = read_safetensors(name)[0] if bare else load_pretrained(name).tensors
    parameters = {k: v for k, v in tensors.items() if v.is_floating_point() and not k.endswith(_STATISTICS)}
    if not any(tensor.count_nonzero() for tensor in parameters.values()):
        raise UserError(f"{name}: all its parameters are zero, or there are none; give a network's weights")
    return parameters


def check_alike(networks: Mapping[str, Parameters]) -> None:
    """Check that networks have the same parameters.

    Args:
        networks: Parameters by the user's name of the network.

    Raises:
        UserError: If two differ; the message names the first parameter that differs.
    """
    shapes = {name: {k: tuple(v.shape) for k, v in tensors.items()} for name, tensors in networks.items()}
    for (one, a), (other, b) in pairwise(shapes.items()):
        if differ := sorted(k for k in a.keys() | b.keys() if a.get(k) != b.get(k)):
            first = differ[0]
            raise UserError(
                f"{one} and {other} are of different architectures: {first} is {a.get(first, 'missing')} in the "
                f"first and {b.get(first, 'missing')} in the second; give networks of one architecture"
            )


def sparsity(parameters: Parameters, threshold: float) -> float:
    """Share of parameters close to zero, |w| < ``threshold``, in [0, 1]."""
    close = sum(int((tensor.abs() < threshold).sum()) for tensor in parameters.values())
    return close / sum(tensor.numel() for tensor in parameters.values())


def change_magnitude(start: Parameters, trained: Parameters) -> float:
    """‖w1 - w0‖ / ‖w0‖ over all parameters as one vector.

    It is relative, as in the rebuttal, so that networks of different sizes and scales compare. 1 is the distance to
    zero.
    """
    difference = _vector(trained) - _vector(start)
    return float(difference.norm() / _vector(start).norm())


def diversity(networks: Sequence[Parameters]) -> float:
    """Mean cosine distance over all pairs of at least two networks, all parameters as one vector; in [0, 2]."""
    vectors = [_vector(network) for network in networks]
    directions = [vector / vector.norm() for vector in vectors]
    return fmean(1 - float(a @ b) for a, b in combinations(directions, 2))


def _vector(parameters: Parameters) -> Tensor:
    return torch.cat([parameters[name].flatten().double() for name in sorted(parameters)])
