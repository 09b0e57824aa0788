"""Mini-DeiT's layers: shared weights, with own transformations for each layer."""

from typing import cast

import torch
from einops import einsum, rearrange
from timm.layers import Mlp
from timm.models.vision_transformer import Attention, Block
from torch import Tensor, nn


class MultiplexedAttention(nn.Module):
    """Self-attention with shared projections and own transformations over the heads.

    ``softmax((I + F) Q Kᵀ / √d)``, then ``(I + G)`` of that over the heads, times V. Tokens (B, N, D) -> (B, N, D).

    Args:
        shared: Attention whose projections are shared.
    """

    def __init__(self, shared: Attention) -> None:
        super().__init__()
        self.qkv, self.proj, self.num_heads, self.scale = shared.qkv, shared.proj, shared.num_heads, shared.scale
        self.before = nn.Parameter(torch.zeros(shared.num_heads, shared.num_heads))
        self.after = nn.Parameter(torch.zeros(shared.num_heads, shared.num_heads))

    def forward(self, x: Tensor, attn_mask: None = None, is_causal: bool = False) -> Tensor:
        """Attention output, (B, N, D); the mask is an argument of timm's interface and always None here."""
        q, k, v = rearrange(self.qkv(x), "b n (three h d) -> three b h n d", three=3, h=self.num_heads)
        logits = _mixed(q * self.scale @ k.mT, self.before)
        attended = _mixed(logits.softmax(dim=-1), self.after) @ v
        out: Tensor = self.proj(rearrange(attended, "b h n d -> b n (h d)"))
        return out


class MultiplexedMlp(nn.Module):
    """A shared MLP that reads tokens after the layer's own depth-wise transformation.

    Prefix tokens and image tokens (B, P + N, D) -> (B, P + N, D). The convolution is residual.

    Args:
        shared: MLP whose layers are shared.
        prefix: Number of tokens before the image tokens, P.
        rows: Rows of image tokens.
    """

    def __init__(self, shared: Mlp, prefix: int, rows: int) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = cast(nn.Linear, shared.fc1), shared.act, cast(nn.Linear, shared.fc2)
        self.prefix, self.rows = prefix, rows
        width = self.fc1.in_features
        self.local = nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False)
        nn.init.zeros_(self.local.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Transform the tokens, then the shared layers: (B, P + N, D) -> (B, P + N, D)."""
        image = rearrange(x[:, self.prefix :], "b (g h) d -> b d g h", g=self.rows)
        moved = rearrange(self.local(image), "b d g h -> b (g h) d")
        x = torch.cat([x[:, : self.prefix], x[:, self.prefix :] + moved], dim=1)
        out: Tensor = self.fc2(self.act(self.fc1(x)))
        return out


def is_known(block: nn.Module) -> bool:
    """Whether the transformations know a layer: timm's, whose attention and MLP have no gates and norms."""
    attention, mlp = getattr(block, "attn", None), getattr(block, "mlp", None)
    if type(block) is not Block or type(attention) is not Attention or type(mlp) is not Mlp:
        return False
    inner = [getattr(attention, name, None) for name in ("q_norm", "k_norm", "norm")] + [mlp.norm]
    is_plain = all(norm is None or isinstance(norm, nn.Identity) for norm in inner)
    return is_plain and isinstance(mlp.fc1, nn.Linear) and getattr(attention, "gate", None) is None


def _mixed(attention: Tensor, deviation: Tensor) -> Tensor:
    """Attention (B, H, N, N) of each head plus a mixture of all heads."""
    return attention + einsum(deviation, attention, "out h, b h n m -> b out n m")
