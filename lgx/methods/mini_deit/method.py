"""Mini-DeiT: weight multiplexing, shared layers that a small linear transformation tells apart."""

from collections.abc import Mapping
from math import isqrt
from typing import Any, cast

import torch
from einops import einsum, rearrange
from timm.models.vision_transformer import Attention, Block
from torch import Tensor, nn

from lgx.artifacts.learngene import Learngene
from lgx.initialization.expansion import first_of_stages
from lgx.methods.sws.method import SWS


class MiniDeiT(SWS):
    """Learn stage learngenes whose layers differ by more than their place: an auxiliary net beside that of SWS.

    Zhang et al., "MiniViT: Compressing Vision Transformers with Weight Multiplexing", 2022. The layers of a stage share
    the weights of attention and MLP; each has norms of its own, a linear transformation over the heads before and one
    after the softmax, and a depth-wise 3 x 3 convolution of the image tokens that the MLP reads. This is the paper's
    text, in DeiT with its class token and position embedding, and has the 44.1 M parameters of SWS's Table 5 for pairs
    of layers in DeiT-B. The released Mini-DeiT has relative positions instead of a class token, and no convolution.
    The class token is left alone by ours, so that the last layer's, whose image tokens nothing reads, never changes.

    Ours too are the start, every transformation the identity plus a deviation of 0, so that it is the start of SWS,
    and the loss: Eq. 4 of SWS, without MiniViT's distillation of attention and hidden states.

    Descendants are plain networks: the learngene holds the shared weights and the norms of each stage's first layer,
    and they are expanded as those of SWS, without the transformations.

    Args:
        stages: Layers of each stage, front to back; MiniViT shares between two.
        kwargs: Arguments of ``SWS``, of ``Distill`` and of every method.
    """

    def __init__(self, stages: tuple[int, ...] = (2, 2, 2, 2, 2, 2), **kwargs: Any) -> None:
        super().__init__(stages=stages, **kwargs)

    @property
    def method(self) -> str:
        """``mini_deit``."""
        return "mini_deit"

    def build_network(self) -> nn.Module:
        """The auxiliary net with its transformations."""
        network = self.architecture.replace(stages=None).build(drop_rate=self.drop_path_rate)
        blocks = [cast(Block, block) for block in network.blocks]
        for first, size in zip(first_of_stages(self.stages), self.stages, strict=True):
            attention, mlp = cast(Attention, blocks[first].attn), blocks[first].mlp
            for block in blocks[first : first + size]:
                block.attn, block.mlp = MultiplexedAttention(attention), MultiplexedMlp(mlp)
        return network

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """One layer per stage, and all that is not a layer; without the transformations."""
        plain = self.architecture.build("meta").state_dict().keys()
        return super().learngene({name: tensor for name, tensor in state.items() if name in plain})


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
        """Attend; masks are timm's, and a ViT that classifies has none."""
        q, k, v = rearrange(self.qkv(x), "b n (three h d) -> three b h n d", three=3, h=self.num_heads)
        logits = _mixed(q * self.scale @ k.mT, self.before)
        attended = _mixed(logits.softmax(dim=-1), self.after) @ v
        out: Tensor = self.proj(rearrange(attended, "b h n d -> b n (h d)"))
        return out


class MultiplexedMlp(nn.Module):
    """A shared MLP that reads own depth-wise transformations of the tokens.

    Class token and image tokens (B, 1 + g², D) -> (B, 1 + g², D). The convolution adds to what it reads.

    Args:
        shared: MLP whose layers are shared.
    """

    def __init__(self, shared: nn.Module) -> None:
        super().__init__()
        self.fc1, self.act, self.fc2 = cast(nn.Linear, shared.fc1), shared.act, cast(nn.Linear, shared.fc2)
        width = self.fc1.in_features
        self.local = nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False)
        nn.init.zeros_(self.local.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Transform, then the shared layers."""
        side = isqrt(x.shape[1] - 1)
        image = rearrange(x[:, 1:], "b (g h) d -> b d g h", g=side)
        moved = rearrange(self.local(image), "b d g h -> b (g h) d")
        x = torch.cat([x[:, :1], x[:, 1:] + moved], dim=1)
        out: Tensor = self.fc2(cast(nn.Module, self.act)(self.fc1(x)))
        return out


def _mixed(attention: Tensor, deviation: Tensor) -> Tensor:
    """Each head plus a mixture of all, (B, H, N, N)."""
    return attention + einsum(deviation, attention, "out h, b h n m -> b out n m")
