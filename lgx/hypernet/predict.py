"""From raw predictions to the parameters of a network: tiling, normalisation, timm's names."""

import math

import torch
from torch import Tensor


def tile(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Repeat a tensor along every dimension until it covers ``shape``, then crop.

    Args:
        tensor: No larger than ``shape`` in any dimension.
        shape: The target.
    """
    for dim, (want, have) in enumerate(zip(shape, tensor.shape, strict=True)):
        if want > have:
            whole, rest = divmod(want, have)
            tensor = torch.cat([tensor] * whole + [tensor.narrow(dim, 0, rest)] * (rest > 0), dim)
    return tensor[tuple(slice(size) for size in shape)]


def weight_scale(shape: tuple[int, ...]) -> float:
    """Factor that gives a predicted weight the variance of He's initialisation (GHN-3's normalisation).

    ``sqrt(β / fan_in)``; β = 2, or 1 for kernels with one input channel and for kernels wider than high.

    Args:
        shape: Shape of the weight, two or more dimensions.
    """
    depthwise = len(shape) > 2 and (shape[1] == 1 or (len(shape) > 3 and shape[2] < shape[3]))
    return math.sqrt((1 if depthwise else 2) / math.prod(shape[1:]))


def norm_weight(raw: Tensor) -> Tensor:
    """A norm's weight, between 0 and 2."""
    return 2 * torch.sigmoid(0.5 * raw)


def bias(raw: Tensor) -> Tensor:
    """Any bias, between -1 and 1."""
    return torch.tanh(0.2 * raw)
