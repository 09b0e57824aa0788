"""Mimetic initialization: a start in closed form."""

from typing import Any, Literal

import torch
from timm.layers import build_sincos2d_pos_embed
from torch import Tensor

from lgx.architectures import Architecture, ViTArchitecture, vit_only
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Initializer
from lgx.initialization.sizes import Sizes

Positions = Literal["sinusoidal", "random"]


class Mimetic(Initializer):
    """Attention whose products of weights look like those of trained ViTs, without a source (mimetic initialization).

    In every layer, for each head, ``W_Q W_K^T = alpha_qk Z + beta_qk I``, and for all heads together
    ``W_V W_proj = alpha_vo Z - beta_vo I``, where each Z has independent entries of variance 1 / D. The factors come
    from a singular value decomposition, with the square root of the singular values on both sides; that of a head keeps
    the largest ``D / num_heads`` values. Position embeddings start sinusoidal and are trained. Everything else is
    timm's random start.

    The defaults are the paper's values for images. Ours are which sinusoids: sines and cosines of the row and of the
    column of a patch, as timm computes them; zero as the position of tokens before the patches; and that the pooling of
    networks that pool by attention keeps its random start.

    Trockman and Kolter, "Mimetic Initialization of Self-Attention Layers", ICML 2023, https://arxiv.org/abs/2305.09828

    Args:
        alpha_qk: Share of the random matrix in the product of queries' and keys' weights.
        beta_qk: Share of the identity in the same product.
        alpha_vo: Share of the random matrix in the product of values' and projection's weights.
        beta_vo: Share of the negative identity in the same product.
        positions: ``sinusoidal``, or timm's ``random`` start of the position embedding.
    """

    method = "mimetic"

    reads_source = False

    def __init__(
        self,
        alpha_qk: float = 0.7,
        beta_qk: float = 0.7,
        alpha_vo: float = 0.4,
        beta_vo: float = 0.4,
        positions: Positions = "sinusoidal",
    ) -> None:
        for option, value in (
            ("alpha_qk", alpha_qk), ("beta_qk", beta_qk), ("alpha_vo", alpha_vo), ("beta_vo", beta_vo),
        ):  # fmt: skip
            if not 0 <= value <= 1:
                raise UserError(f"{option}: expected a number in [0, 1], got {value}")
        self.of_queries, self.of_values = (alpha_qk, beta_qk), (alpha_vo, -beta_vo)
        self.positions: Positions = positions

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
        if self.positions == "sinusoidal" and embedding is not None:
            tensors["pos_embed"] = _sinusoidal(architecture, tuple(embedding.shape))
        return tensors

    def _attention(self, prefix: str, width: int, attention: Any) -> dict[str, Tensor]:
        """The weights of one attention; queries, keys and values are one fused matrix or three."""
        heads, head = attention.num_heads, attention.head_dim
        pairs = [factors(width, head, *self.of_queries) for _ in range(heads)]
        queries, keys = (torch.cat([pair[side] for pair in pairs]) for side in (0, 1))
        values, projection = factors(width, heads * head, *self.of_values)
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
            f"mimetic: sinusoidal positions need an embed_dim that is a multiple of 4, got {architecture.embed_dim}; "
            "choose another one, or positions: random"
        )
    embedding = build_sincos2d_pos_embed([*architecture.grid], architecture.embed_dim)
    return torch.cat([torch.zeros(shape[1] - len(embedding), shape[2]), embedding]).reshape(shape)
