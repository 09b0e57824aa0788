"""Mini-DeiT: weight multiplexing, shared layers that differ by a small linear transformation."""

from collections.abc import Mapping
from typing import Any, cast

import torch
from einops import einsum, rearrange
from timm.layers import Mlp
from timm.models.vision_transformer import Attention, Block
from torch import Tensor, nn

from lgx.architectures import vit_only
from lgx.artifacts.learngene import Learngene
from lgx.errors import UserError
from lgx.initialization.expansion import first_of_stages
from lgx.methods.mini_deit import SPEC
from lgx.methods.sws.method import SWS


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
        self.fc1 = cast(nn.Linear, shared.fc1)
        self.act = shared.act
        self.fc2 = cast(nn.Linear, shared.fc2)
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


def is_supported(block: nn.Module) -> bool:
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


class MiniDeiT(SWS):
    """Learn stage learngenes with an auxiliary net whose shared layers have small transformations of their own.

    The layers of a stage share the weights of attention and MLP [0]. Each layer has its own norms, a linear
    transformation over the heads before and one after the softmax, and a depth-wise 3 x 3 convolution of the image
    tokens that the MLP reads. This follows the paper's text, applied to DeiT with its class token and position
    embedding, and has the 44.1 M parameters of SWS's Table 5 for pairs of layers in DeiT-B. The released Mini-DeiT has
    relative positions instead of a class token, and no convolution. Our convolution leaves the prefix tokens out: class
    token, registers, distillation token. Where the head reads the class token alone, the convolution of the last layer
    is therefore never trained, because nothing reads that layer's image tokens.

    Ours are also the start (every transformation is the identity plus a deviation of 0, so that the start is that of
    SWS) and the loss (Eq. 4 of SWS, without MiniViT's distillation of attention and hidden states).

    Descendants are plain networks: the learngene holds the shared weights and the norms of each stage's first layer,
    and is expanded like one of SWS, without the transformations.

    [0]: Zhang et al., "MiniViT: Compressing Vision Transformers with Weight Multiplexing", CVPR 2022,
    https://arxiv.org/abs/2204.07154

    Args:
        stages: Number of layers of each stage, front to back; MiniViT shares between two layers.
        kwargs: Arguments of ``SWS``, of ``Distill`` and of every method. A ``start`` from the ancestor's layers also
            gives the norms of a stage's layers, all the same.
    """

    spec = SPEC

    def __init__(self, stages: tuple[int, ...] = (2, 2, 2, 2, 2, 2), **kwargs: Any) -> None:
        super().__init__(stages=stages, **kwargs)

    def random_network(self) -> nn.Module:
        """The auxiliary net with its transformations, which are the identity at every start."""
        architecture = vit_only(self.architecture, f"model {type(self).__name__}")
        network = architecture.unshared().build(drop_rate=self.drop_rate)
        blocks = [cast(Block, block) for block in network.blocks]
        if not is_supported(blocks[0]):
            raise UserError(f"model MiniDeiT: does not support layers of {architecture.form}; use SWS or TLEG")
        prefix = architecture.num_prefix_tokens
        rows = architecture.grid[0]
        for first, size in zip(first_of_stages(self.stages), self.stages, strict=True):
            attention, mlp = cast(Attention, blocks[first].attn), cast(Mlp, blocks[first].mlp)
            for block in blocks[first : first + size]:
                block.attn = MultiplexedAttention(attention)
                block.mlp = MultiplexedMlp(mlp, prefix, rows)
        return network

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """One layer per stage, and all parameters outside the layers; without the transformations."""
        plain = self.architecture.build("meta").state_dict().keys()
        return super().learngene({name: tensor for name, tensor in state.items() if name in plain})
