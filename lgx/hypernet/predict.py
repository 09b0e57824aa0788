"""From raw predictions to the parameters of a network: tiling, normalization, timm's names."""

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from einops import rearrange
from torch import Tensor

from lgx.hypernet.decoder import Factors
from lgx.hypernet.graph import Node
from lgx.hypernet.lowrank import LowRankTensor


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
    """Factor that gives a predicted weight the variance of He's initialization (GHN-3's normalization).

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


GPT2_STD = 0.02
"""``initializer_range`` of GPT-2 (Radford et al., 2019)."""


def finish(
    node: Node, decoded: Tensor | Factors, dense: bool, class_position_std: float = 0.0
) -> list[dict[str, Tensor]]:
    """Tile and normalize the tensors of n alike nodes, under patterns of their names: {0} the parameter, {1} its stem.

    A text model's tables and matrices get the scale of GPT-2's own start, as LoGAH's code gives it to the matrices;
    TAL's, which is older there, has He's for them. With He's, and tables of standard deviation 1, a GPT-2 of 3 layers
    stays at chance on SST-2 for 400 steps, even when its weights themselves are trained; with GPT-2's it reaches what
    it reaches from transformers' own start.
    """
    op, shape = node.op, node.shape
    if op == "pos_enc" and node.form != "table":
        return [{"{0}": _positions(position, shape, class_position_std)} for position in _dense(decoded)]
    if op == "bias":
        vectors = _dense(decoded)
        return [{"{0}": vector} for vector in bias(_apart(tile(vectors, (len(vectors), *shape)), node.parts))]
    if op in ("ln", "bn"):
        pairs = _dense(decoded)
        raw_weights, raw_biases = tile(pairs, (len(pairs), 2, *shape)).unbind(1)
        both = zip(norm_weight(raw_weights), bias(raw_biases), strict=True)
        return [{"{1}.weight": weight, "{1}.bias": shift} for weight, shift in both]
    scale = GPT2_STD if node.form in ("table", "transposed") else weight_scale(shape)
    if isinstance(decoded, Factors):
        decoded = _scaled(decoded, scale)
        if len(shape) == 2:
            return [{"{0}": weight.to_dense() if dense else weight} for weight in _products(decoded, node)]
        weights = decoded.to_dense()
    else:
        weights = decoded * scale
    weights = tile(weights, (len(weights), *shape, 1, 1)[:5])
    finished = [weight.reshape(shape) for weight in weights]
    return [{"{0}": weight.T.contiguous() if node.form == "transposed" else weight} for weight in finished]


def balance(parameters: Mapping[str, Tensor], gain: float) -> dict[str, Tensor]:
    """Make attention louder than what a token says of itself.

    A predicted network's last token, or class token, knows of all others by attention alone, which at the start is
    their mean: of N tokens it has the N-th part of the variance of its own embedding, position and MLPs. Free weights
    grow by ten times in some hundred steps; a hypernetwork's predictions hardly do, and a GPT-2 that has to find a word
    among 64 stays at chance. Our own remedy, in neither paper. Measured once on IMDB (64 tokens, width 64, 3 layers):
    with g = 1 a hypernetwork of one architecture has 52 % on validation texts after 400 steps, with g = 6 one of six
    architectures 67 % after 600.

    Args:
        parameters: What was predicted, by name.
        gain: g.

    Returns:
        The same with attention's output projections times g, the MLPs' and the position embedding divided by it.
    """
    factors = {
        name: gain if name.endswith(_ATTENTION) else 1 / gain
        for name in parameters
        if name.endswith((*_ATTENTION, *_OTHERS))
    }
    return {name: _times(tensor, factors.get(name)) for name, tensor in parameters.items()}


_ATTENTION = ("attn.proj.weight", "attn.c_proj.weight")
_OTHERS = ("mlp.fc2.weight", "mlp.c_proj.weight", "pos_embed", "wpe.weight")


def _times(tensor: Tensor, factor: float | None) -> Tensor:
    if factor is None:
        return tensor
    return LowRankTensor(tensor.a * factor, tensor.b) if isinstance(tensor, LowRankTensor) else tensor * factor


def _dense(decoded: Tensor | Factors) -> Tensor:
    return decoded.to_dense() if isinstance(decoded, Factors) else decoded


def _scaled(factors: Factors, scale: float) -> Factors:
    """Scale the smaller factor, for all of the product."""
    if factors.a.shape[1] < factors.b.shape[1]:
        return replace(factors, a=factors.a * scale)
    return replace(factors, b=factors.b * scale)


def _products(factors: Factors, node: Node) -> list[LowRankTensor]:
    """Weights as products; tiling repeats rows of A and of B."""
    count, _, rank = factors.a.shape
    a = _apart(tile(factors.a, (count, node.shape[0], rank)), node.parts)
    b = tile(factors.b, (count, node.shape[1], rank))
    return LowRankTensor.unbind_products(a, b, node.form == "transposed")


def _apart(rows: Tensor, parts: int) -> Tensor:
    """Rows that belong to the parts in turn, (n, size, ...) -> the parts one behind the other."""
    return rows if parts == 1 else rearrange(rows, "n (rows parts) ... -> n (parts rows) ...", parts=parts)


def _positions(raw: Tensor, shape: tuple[int, ...], class_position_std: float) -> Tensor:
    """(1, D, s, s), tiled -> (1, 1 + s², D), row by row, behind the class token's row."""
    tokens = tile(raw, shape)[0].flatten(1).T
    row = tokens.new_zeros(1, tokens.shape[1])
    if class_position_std:
        row = torch.randn_like(row) * class_position_std
    return torch.cat([row, tokens]).unsqueeze(0)
