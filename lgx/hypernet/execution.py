"""Networks that run on predicted parameters, whose matrices may be products that are never formed."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import torch
from einops import einsum, rearrange
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from lgx.architectures import Architecture, GPT2Architecture
from lgx.hypernet.lowrank import LowRankTensor

if TYPE_CHECKING:
    from lgx.architectures.gpt2_model import GPT2Classifier


@lru_cache(maxsize=2048)
def skeleton(architecture: Architecture) -> "VisionTransformer | GPT2Classifier":
    """The network of an architecture on the meta device: its forward pass without parameters.

    It is the timm or transformers model, but that a ViT's layers are run by :class:`_Layer`.
    """
    network = cast("VisionTransformer | GPT2Classifier", architecture.build("meta"))
    if isinstance(network, VisionTransformer):
        last = len(network.blocks) - 1
        reads_one = network.global_pool == "token"
        network.blocks = nn.Sequential(
            *(_Layer(block, only_class_token=reads_one and i == last) for i, block in enumerate(network.blocks))
        )
    return network


def execute(architecture: Architecture, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """Run an architecture on predicted parameters.

    Args:
        architecture: Which network.
        parameters: All of its parameters, dense or :class:`~lgx.hypernet.lowrank.LowRankTensor`, under timm's or
            transformers' names.
        inputs: Images, (B, C, H, W), or token ids, (B, N).

    Returns:
        Logits, (B, K).
    """
    return cast(Tensor, functional_call(_headless(architecture), dict(parameters), (inputs,)))


def execute_with_features(
    architecture: Architecture, parameters: Mapping[str, Tensor], inputs: Tensor
) -> tuple[Tensor, Tensor]:
    """Run an architecture on predicted parameters; see :func:`execute`.

    Returns:
        Logits, (B, K), and the features of the class token, or of a text's last token, behind the last norm, (B, D).
    """
    wrapper = _GPT2WithFeatures if isinstance(architecture, GPT2Architecture) else _ViTWithFeatures
    named = {f"network.{name}": parameter for name, parameter in parameters.items()}
    return cast(tuple[Tensor, Tensor], functional_call(wrapper(_headless(architecture)), named, (inputs,)))


def _headless(architecture: Architecture) -> "VisionTransformer | GPT2Classifier":
    """One skeleton for tasks of any number of classes: only parameters know how many rows the head has."""
    return skeleton(architecture.replace(num_classes=1))


class _Layer(nn.Module):
    """A layer of timm's plain ViT, with its values and gradients but fewer steps.

    Queries, keys and values are cut apart where they lie, so that neither they nor their gradients are copied. And a
    head that reads the class token alone needs no other token of the last layer, not even their keys and values. What
    timm's layers have beyond that (layer scale, norms of queries and keys, dropout), no architecture here has.

    Args:
        block: timm's layer; its modules keep their names.
        only_class_token: Whether the layer's output is the class token's, (B, 1, D), and not (B, N, D).
    """

    def __init__(self, block: Any, only_class_token: bool) -> None:
        super().__init__()
        self.norm1, self.attn, self.norm2, self.mlp = block.norm1, block.attn, block.norm2, block.mlp
        self.only_class_token = only_class_token

    def forward(self, x: Tensor) -> Tensor:
        """(B, N, D) -> (B, N, D) or (B, 1, D)."""
        normed = self.norm1(x)
        if self.only_class_token:
            x = x[:, :1] + self.attn.proj(self._class_attention(normed))
        else:
            x = x + self.attn.proj(self._attention(normed))
        return x + cast(Tensor, self.mlp(self.norm2(x)))

    def _attention(self, x: Tensor) -> Tensor:
        parts = self.attn.qkv(x).chunk(3, dim=-1)
        q, k, v = (rearrange(part, "b n (h d) -> b h n d", h=self.attn.num_heads) for part in parts)
        attended: Tensor = F.scaled_dot_product_attention(q, k, v)
        return rearrange(attended, "b h n d -> b n (h d)")

    def _class_attention(self, x: Tensor) -> Tensor:
        """The class token's attention output: (B, N, D) -> (B, 1, D).

        Of each head q·(K x) is (Kᵀ q)·x, and the weighted mean of the values V x is V times that of x. A bias of the
        keys would add the same to all of a query's scores, which the softmax takes away.
        """
        (w_q, w_k, w_v), (bias_q, _, bias_v) = _thirds(self.attn.qkv.weight), self.attn.qkv.bias.chunk(3)
        q = rearrange(F.linear(x[:, 0], w_q, bias_q), "b (h d) -> b h d", h=self.attn.num_heads)
        carried = _out_of_heads(q * q.shape[-1] ** -0.5, w_k)  # (B, H, D)
        with torch.autocast(x.device.type, enabled=False):  # fused kernels keep scores in float32 too
            mean = (carried.to(x.dtype) @ x.mT).softmax(dim=-1) @ x  # (B, H, D)
        out: Tensor = rearrange(_into_heads(mean, w_v), "b h d -> b 1 (h d)") + bias_v
        return out


def _thirds(weight: Tensor) -> list[Tensor]:
    if isinstance(weight, LowRankTensor):
        return [LowRankTensor(a, weight.b) for a in weight.a.chunk(3)]
    return list(weight.chunk(3))


def _into_heads(x: Tensor, weight: Tensor) -> Tensor:
    """Through each head's rows of a weight: (B, H, in), (H d, in) -> (B, H, d)."""
    if isinstance(weight, LowRankTensor):
        return _into_heads(x @ weight.b.T, weight.a)
    return einsum(x, rearrange(weight, "(h d) inp -> h d inp", h=x.shape[1]), "b h inp, h d inp -> b h d")


def _out_of_heads(x: Tensor, weight: Tensor) -> Tensor:
    """Back through each head's rows of a weight: (B, H, d), (H d, in) -> (B, H, in)."""
    if isinstance(weight, LowRankTensor):
        return _out_of_heads(x, weight.a) @ weight.b
    return einsum(x, rearrange(weight, "(h d) inp -> h d inp", h=x.shape[1]), "b h d, h d inp -> b h inp")


class _ViTWithFeatures(nn.Module):
    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        tokens = self.network.forward_features(inputs)
        return self.network.forward_head(tokens), tokens[:, 0]


class _GPT2WithFeatures(_ViTWithFeatures):
    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        features = self.network.features(inputs)
        return self.network.score(features), features
