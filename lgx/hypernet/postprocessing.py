"""Post-processing of raw predictions: tiling, normalization, and names as in timm and transformers."""

import math
from collections.abc import Mapping
from dataclasses import replace

import torch
from einops import rearrange
from torch import Tensor

from lgx.hypernet.decoder import Factors
from lgx.hypernet.graph import Node
from lgx.hypernet.low_rank_tensor import LowRankTensor

GPT2_STD = 0.02
"""Standard deviation of GPT-2's initial weights, its ``initializer_range`` (Radford et al., 2019)."""
_ATTENTION = ("attn.proj.weight", "attn.c_proj.weight")
_OTHERS = ("mlp.fc2.weight", "mlp.c_proj.weight", "pos_embed", "wpe.weight")


def tile(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Repeat a tensor along each dimension until it covers a shape, then crop it to that shape.

    Returns:
        A tensor of the wanted shape.
    """
    for dim, (want, have) in enumerate(zip(shape, tensor.shape, strict=True)):
        if want > have:
            whole, rest = divmod(want, have)
            tensor = torch.cat([tensor] * whole + [tensor.narrow(dim, 0, rest)] * (rest > 0), dim)
    return tensor[tuple(slice(size) for size in shape)]


def weight_scale(shape: tuple[int, ...]) -> float:
    """Factor that gives a predicted weight the variance of He initialization (He et al., 2015), as in GHN-3.

    ``sqrt(β / fan_in)``, where β = 2, but β = 1 for kernels with one input channel or with more columns than rows.

    Args:
        shape: Shape of the weight, (out, in, ...).
    """
    depthwise = len(shape) > 2 and (shape[1] == 1 or (len(shape) > 3 and shape[2] < shape[3]))
    return math.sqrt((1 if depthwise else 2) / math.prod(shape[1:]))


def normalize_norm_weight(raw: Tensor) -> Tensor:
    """Map raw weights of norms, (n, size), to values between 0 and 2, element by element (GHN-3)."""
    return 2 * torch.sigmoid(0.5 * raw)


def normalize_bias(raw: Tensor) -> Tensor:
    """Map raw biases, (n, size), to values between -1 and 1, element by element (GHN-3)."""
    return torch.tanh(0.2 * raw)


def postprocess(
    node: Node, decoded: Tensor | Factors, dense: bool, class_position_std: float = 0.0
) -> list[dict[str, Tensor]]:
    """Tile and normalize the raw predictions for n nodes that differ only in their parameter's name.

    The matrices and tables of a text model get the standard deviation of GPT-2's own initialization. LoGAH's code
    divides matrices by their deviation first; TAL's, which is based on an older version, uses He's. With He's, and
    tables of standard deviation 1, a GPT-2 of 3 layers stays at chance on SST-2 for 400 steps, even if its weights are
    trained directly. With GPT-2's it is as accurate as from transformers' own initialization.

    Args:
        node: The node, without its parameter's name.
        decoded: The decoder's output for the n nodes; see :meth:`~lgx.hypernet.decoder.Decoder.decode`.
        dense: False keeps matrices as :class:`~lgx.hypernet.low_rank_tensor.LowRankTensor` if they have factors.
        class_position_std: See :class:`~lgx.hypernet.config.HypernetConfig`.

    Returns:
        For each node its tensors under name patterns: ``{0}`` stands for the parameter's name, ``{1}`` for the name
        without ``.weight``.
    """
    op, shape = node.op, node.shape
    if op == "pos_enc" and node.form != "table":
        return [{"{0}": _position_embedding(raw, shape, class_position_std)} for raw in _dense(decoded)]
    if op == "bias":
        vectors = _dense(decoded)
        tiled = _deinterleaved(tile(vectors, (len(vectors), *shape)), node.fused)
        return [{"{0}": vector} for vector in normalize_bias(tiled)]
    if op in ("ln", "bn"):
        pairs = _dense(decoded)
        raw_weights, raw_biases = tile(pairs, (len(pairs), 2, *shape)).unbind(1)
        both = zip(normalize_norm_weight(raw_weights), normalize_bias(raw_biases), strict=True)
        return [{"{1}.weight": weight, "{1}.bias": bias} for weight, bias in both]
    scale = GPT2_STD if node.form in ("table", "transposed") else weight_scale(shape)
    if isinstance(decoded, Factors):
        decoded = _scaled(decoded, scale)
        if len(shape) == 2:
            return [{"{0}": weight.to_dense() if dense else weight} for weight in _low_rank_tensors(decoded, node)]
        weights = decoded.to_dense()
    else:
        weights = decoded * scale
    weights = tile(weights, (len(weights), *shape, 1, 1)[:5])
    reshaped = [weight.reshape(shape) for weight in weights]
    return [{"{0}": weight.T.contiguous() if node.form == "transposed" else weight} for weight in reshaped]


def _dense(decoded: Tensor | Factors) -> Tensor:
    """The decoder's output, (n, ...), with factors multiplied."""
    return decoded.to_dense() if isinstance(decoded, Factors) else decoded


def _scaled(factors: Factors, scale: float) -> Factors:
    """Scale the product by scaling its smaller factor."""
    if factors.a.shape[1] < factors.b.shape[1]:
        return replace(factors, a=factors.a * scale)
    return replace(factors, b=factors.b * scale)


def _low_rank_tensors(factors: Factors, node: Node) -> list[LowRankTensor]:
    """The n weights as products; tiling repeats rows of A and of B."""
    count, _, rank = factors.a.shape
    a = _deinterleaved(tile(factors.a, (count, node.shape[0], rank)), node.fused)
    b = tile(factors.b, (count, node.shape[1], rank))
    return LowRankTensor.unbind_products(a, b, node.form == "transposed")


def _deinterleaved(rows: Tensor, fused: int) -> Tensor:
    """(n, size, ...) with rows of the fused matrices in turn -> (n, size, ...) with one matrix after the other."""
    return rows if fused == 1 else rearrange(rows, "n (rows fused) ... -> n (fused rows) ...", fused=fused)


def _position_embedding(raw: Tensor, shape: tuple[int, ...], class_position_std: float) -> Tensor:
    """Tile to (1, D, s, s) and return (1, 1 + s², D): the class token's row, then the positions row by row."""
    tokens = tile(raw, shape)[0].flatten(1).T
    row = tokens.new_zeros(1, tokens.shape[1])
    if class_position_std:
        row = torch.randn_like(row) * class_position_std
    return torch.cat([row, tokens]).unsqueeze(0)


def apply_attention_gain(parameters: Mapping[str, Tensor], gain: float) -> dict[str, Tensor]:
    """Scale the contribution of attention to the residual stream, relative to the other contributions.

    At the start of training, attention outputs the mean over the N tokens. The variance of that mean is only 1/N of the
    variance of the token's own embedding, position and MLP outputs, so the classified token (the class token, or the
    last token of a GPT-2) has little information about the others. Free weights grow tenfold within some hundred
    steps; the predictions of a hypernetwork hardly grow, and a GPT-2 that has to find one word among 64 stays at
    chance. This gain is in no paper. Measured once on IMDB (64 tokens, width 64, 3 layers), validation accuracy: 52 %
    after 400 steps with g = 1 (a hypernetwork of one architecture), 67 % after 600 steps with g = 6 (of six
    architectures).

    Args:
        parameters: Predicted parameters by name, of timm's ViT or transformers' GPT-2.
        gain: g > 0.

    Returns:
        The same parameters, with the output projections of attention multiplied by g, and the output projections of
        MLPs and the position embedding divided by g.
    """
    factors = {
        name: gain if name.endswith(_ATTENTION) else 1 / gain
        for name in parameters
        if name.endswith((*_ATTENTION, *_OTHERS))
    }
    return {name: _multiplied(tensor, factors.get(name)) for name, tensor in parameters.items()}


def _multiplied(tensor: Tensor, factor: float | None) -> Tensor:
    """A parameter of any shape times a factor, which a low-rank one applies to A."""
    if factor is None:
        return tensor
    return LowRankTensor(tensor.a * factor, tensor.b) if isinstance(tensor, LowRankTensor) else tensor * factor
