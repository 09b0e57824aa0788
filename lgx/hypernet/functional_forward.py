"""Forward passes with predicted parameters, dense or low-rank."""

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
from lgx.hypernet.low_rank_tensor import LowRankTensor

if TYPE_CHECKING:
    from lgx.architectures.gpt2_model import GPT2Classifier


@lru_cache(maxsize=2048)
def skeleton(architecture: Architecture) -> "VisionTransformer | GPT2Classifier":
    """Build an architecture's network on the meta device, without memory for its parameters.

    It is the model of timm or transformers, except that the layers of a ViT are replaced by :class:`_Layer`.

    Returns:
        The network; it is cached and must not be changed.
    """
    network = cast("VisionTransformer | GPT2Classifier", architecture.build("meta"))
    if isinstance(network, VisionTransformer):
        last = len(network.blocks) - 1
        reads_one = network.global_pool == "token"
        network.blocks = nn.Sequential(
            *(_Layer(block, only_class_token=reads_one and i == last) for i, block in enumerate(network.blocks))
        )
    return network


def functional_forward(architecture: Architecture, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """Compute the logits of an architecture with the given parameters.

    Args:
        architecture: The network; its number of classes is ignored, because the head's parameters decide it.
        parameters: All parameters by their name in timm or transformers, dense or
            :class:`~lgx.hypernet.low_rank_tensor.LowRankTensor`.
        inputs: Images, (B, C, H, W), or token ids, (B, N).

    Returns:
        Logits, (B, K).
    """
    return cast(Tensor, functional_call(_headless(architecture), dict(parameters), (inputs,)))


def functional_forward_with_features(
    architecture: Architecture, parameters: Mapping[str, Tensor], inputs: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute logits and features of an architecture with the given parameters.

    Returns:
        Logits, (B, K), and features after the last norm, (B, D): of a ViT's class token, or of a text's last token.
    """
    wrapper = _GPT2WithFeatures if isinstance(architecture, GPT2Architecture) else _ViTWithFeatures
    named = {f"network.{name}": parameter for name, parameter in parameters.items()}
    return cast(tuple[Tensor, Tensor], functional_call(wrapper(_headless(architecture)), named, (inputs,)))


def _headless(architecture: Architecture) -> "VisionTransformer | GPT2Classifier":
    """The skeleton with one class, so that all numbers of classes share it in the cache."""
    return skeleton(architecture.replace(num_classes=1))


class _Layer(nn.Module):
    """A layer of timm's plain ViT that computes the same values and gradients with fewer operations.

    Queries, keys and values are views, so that neither they nor their gradients are copied. If the head uses only the
    class token, the last layer computes no other token, and no keys and values of its own for them. Layer scale, norms
    of queries and keys, and dropout, which timm's layers support, are missing, because no architecture here has them.

    Args:
        block: timm's layer; its modules keep their names.
        only_class_token: Whether to return only the class token, (B, 1, D), instead of all tokens, (B, N, D).
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
        """The attention output of all tokens: (B, N, D) -> (B, N, D)."""
        parts = self.attn.qkv(x).chunk(3, dim=-1)
        q, k, v = (rearrange(part, "b n (h d) -> b h n d", h=self.attn.num_heads) for part in parts)
        attended: Tensor = F.scaled_dot_product_attention(q, k, v)
        return rearrange(attended, "b h n d -> b n (h d)")

    def _class_attention(self, x: Tensor) -> Tensor:
        """The class token's attention output: (B, N, D) -> (B, 1, D).

        For each head, with weights K of keys and V of values, a score q·(K x) equals (Kᵀ q)·x, and the weighted mean of
        all V x equals V times the weighted mean of all x. The bias of the keys adds the same number to all scores of a
        query, so it does not change the softmax and is left out.
        """
        (w_q, w_k, w_v), (bias_q, _, bias_v) = _thirds(self.attn.qkv.weight), self.attn.qkv.bias.chunk(3)
        q = rearrange(F.linear(x[:, 0], w_q, bias_q), "b (h d) -> b h d", h=self.attn.num_heads)
        queries = _from_heads(q * q.shape[-1] ** -0.5, w_k)  # Kᵀ q, (B, H, D)
        with torch.autocast(x.device.type, enabled=False):  # fused kernels also keep scores in float32
            mean = (queries.to(x.dtype) @ x.mT).softmax(dim=-1) @ x  # (B, H, D)
        out: Tensor = rearrange(_to_heads(mean, w_v), "b h d -> b 1 (h d)") + bias_v
        return out


def _thirds(weight: Tensor) -> list[Tensor]:
    """The weights of queries, keys and values, (D, D) each, in a fused weight (3 D, D)."""
    if isinstance(weight, LowRankTensor):
        return [LowRankTensor(a, weight.b) for a in weight.a.chunk(3)]
    return list(weight.chunk(3))


def _to_heads(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply by each head's rows of a weight: (B, H, in), (H d, in) -> (B, H, d)."""
    if isinstance(weight, LowRankTensor):
        return _to_heads(x @ weight.b.T, weight.a)
    return einsum(x, rearrange(weight, "(h d) inp -> h d inp", h=x.shape[1]), "b h inp, h d inp -> b h d")


def _from_heads(x: Tensor, weight: Tensor) -> Tensor:
    """Multiply by the transpose of each head's rows of a weight: (B, H, d), (H d, in) -> (B, H, in)."""
    if isinstance(weight, LowRankTensor):
        return _from_heads(x, weight.a) @ weight.b
    return einsum(x, rearrange(weight, "(h d) inp -> h d inp", h=x.shape[1]), "b h d, h d inp -> b h inp")


class _ViTWithFeatures(nn.Module):
    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, K) of images (B, C, H, W), and the class token (B, D)."""
        tokens = self.network.forward_features(inputs)
        return self.network.forward_head(tokens), tokens[:, 0]


class _GPT2WithFeatures(_ViTWithFeatures):
    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, K) of token ids (B, N), and the features of the last token (B, D)."""
        features = self.network.features(inputs)
        return self.network.score(features), features
