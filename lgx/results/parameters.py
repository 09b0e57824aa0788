"""What parameters look like before and after training (TAL, rebuttal, Table 4)."""

from collections.abc import Mapping, Sequence
from itertools import combinations, pairwise
from statistics import fmean

import torch
from torch import Tensor

from lgx.artifacts.learngene import SUFFIX
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.safetensors_files import read_safetensors
from lgx.errors import UserError

_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")

Parameters = Mapping[str, Tensor]


def read_parameters(name: str) -> Parameters:
    """Read the parameters of one network; batch norm's statistics are none.

    Args:
        name: What :func:`~lgx.artifacts.pretrained.load_pretrained` reads, or a safetensors file of weights alone.

    Raises:
        UserError: If it cannot be read, is no network, or its parameters are all zero.
    """
    bare = name.endswith(".safetensors") and not name.endswith(SUFFIX)
    tensors = read_safetensors(name)[0] if bare else load_pretrained(name).tensors
    parameters = {k: v for k, v in tensors.items() if v.is_floating_point() and not k.endswith(_STATISTICS)}
    if not any(tensor.count_nonzero() for tensor in parameters.values()):
        raise UserError(f"{name}: all its parameters are zero, or there are none; give a network's weights")
    return parameters


def check_alike(networks: Mapping[str, Parameters]) -> None:
    """Check that networks have the same parameters.

    Args:
        networks: Parameters by what the user called the network.

    Raises:
        UserError: If two differ; the sentence names the first parameter that does.
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

    Relative, as the rebuttal has it, so that networks of other sizes and scales compare; 1 is as far as to zero.
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
