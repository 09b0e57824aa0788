"""Mimetic initialization: a start in closed form."""

from typing import Any

import torch
from timm.layers import build_sincos2d_pos_embed
from torch import Tensor

from lgx.architectures import Architecture, ViTArchitecture, vit_only
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Initializer
from lgx.initialization.sizes import Sizes

QUERIES = (0.7, 0.7)
VALUES = (0.4, -0.4)
"""Shares of the random matrix and of the identity: in the products of queries and keys, and of values and projection.

They are the paper's values for images.
"""


class Mimetic(Initializer):
    """Attention whose products of weights look like those of trained ViTs, without a source (mimetic initialization).

    In every layer, for each head, ``W_Q W_K^T = 0.7 Z + 0.7 I``, and for all heads together
    ``W_V W_proj = 0.4 Z - 0.4 I``, where each Z has independent entries of variance 1 / D. The factors come
    from a singular value decomposition, with the square root of the singular values on both sides; that of a head keeps
    the largest ``D / num_heads`` values. Position embeddings start sinusoidal and are trained. Everything else is
    timm's random start.

    Ours are which sinusoids: sines and cosines of the row and of the column of a patch, as timm computes them; zero as
    the position of tokens before the patches; and that the pooling of networks that pool by attention keeps its random
    start.

    Trockman and Kolter, "Mimetic Initialization of Self-Attention Layers", ICML 2023, https://arxiv.org/abs/2305.09828
    """

    method = "mimetic"

    reads_source = False

    def sizes(self) -> Sizes:
        """Any size."""
        return Sizes.free()

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """Weights of all attentions, and the position embedding."""
        architecture = vit_only(architecture, self.method)
        model: Any = architecture.build("meta")
        tensors: dict[str, Tensor] = {}
        for layer in range(architecture.depth):
            name = f"{architecture.layers}{layer}.attn"
            tensors |= self._attention(f"{name}.", architecture.embed_dim, model.blocks[layer].attn)
        embedding = model.pos_embed
        if embedding is not None:
            tensors["pos_embed"] = _sinusoidal(architecture, tuple(embedding.shape))
        return tensors

    def _attention(self, prefix: str, width: int, attention: Any) -> dict[str, Tensor]:
        """The weights of one attention; queries, keys and values are one fused matrix or three."""
        heads, head = attention.num_heads, attention.head_dim
        of_heads = (factors(width, head, *QUERIES) for _ in range(heads))
        queries, keys = map(torch.cat, zip(*of_heads, strict=True))
        values, projection = factors(width, heads * head, *VALUES)
        tensors = {f"{prefix}proj.weight": projection.T.contiguous()}
        if getattr(attention, "qkv", None) is not None:
            return tensors | {f"{prefix}qkv.weight": torch.cat([queries, keys, values])}
        parts = {"q": queries, "k": keys, "v": values}
        return tensors | {f"{prefix}{part}_proj.weight": weight for part, weight in parts.items()}


def factors(width: int, rank: int, alpha: float, beta: float) -> tuple[Tensor, Tensor]:
    """Two matrices whose product is close to ``alpha Z + beta I``.

    Args:
        width: D.
        rank: R; below D, the product is the best approximation of this rank. Above D, the rest is zero.
        alpha: Share of the random matrix Z, of variance 1 / D.
        beta: Share of the identity.

    Returns:
        Matrices A and B, (R, D) each, with ``A^T B`` the product.
    """
    product = alpha * torch.randn(width, width) / width**0.5 + beta * torch.eye(width)
    left, values, right = torch.linalg.svd(product)
    root = values.sqrt()[:rank, None]
    pair = root * left.T[:rank], root * right[:rank]
    if rank <= width:
        return pair
    first, second = (torch.cat([each, torch.zeros(rank - width, width)]) for each in pair)
    return first, second


def _sinusoidal(architecture: ViTArchitecture, shape: tuple[int, ...]) -> Tensor:
    """Sines and cosines of the patches' rows and columns, after zeros for the tokens before them, (1, P + N, D)."""
    if architecture.embed_dim % 4:
        raise UserError(
            f"mimetic: sinusoidal positions need an embed_dim that is a multiple of 4, got {architecture.embed_dim}"
        )
    embedding = build_sincos2d_pos_embed([*architecture.grid], architecture.embed_dim)
    return torch.cat([torch.zeros(shape[1] - len(embedding), shape[2]), embedding]).reshape(shape)
