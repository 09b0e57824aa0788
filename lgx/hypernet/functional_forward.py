"""Forward passes with predicted parameters, dense or low-rank, and the loss of a step over several architectures."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, cast

import numpy as np
import torch
from einops import rearrange
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F

from lgx.architectures import Architecture, ViTArchitecture
from lgx.architectures.building import fill_buffers
from lgx.hypernet.graph import Convention, Graph, Node, computational_graph
from lgx.hypernet.hypernet import Hypernet, add_class_token
from lgx.hypernet.low_rank_tensor import LowRankTensor


@lru_cache(maxsize=2048)
def skeleton(architecture: Architecture, device: str = "cpu") -> nn.Module:
    """Build an architecture's network, with parameters on the meta device and buffers on ``device``.

    It is the model of timm or transformers, except that the layers of a ViT are replaced by :class:`_Layer`.

    Returns:
        The network; it is cached and must not be changed.
    """
    network = architecture.build("meta")
    with torch.inference_mode(False):  # a validation may build it, and training save its buffers for a backward pass
        fill_buffers(network, device)
    if isinstance(network, VisionTransformer):
        last = len(network.blocks) - 1
        reads_one = network.global_pool == "token"
        network.blocks = nn.Sequential(
            *(_Layer(block, only_class_token=reads_one and i == last) for i, block in enumerate(network.blocks))
        )
    return network


def functional_forward(architecture: Architecture, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """Compute the logits of an architecture with these parameters.

    Args:
        architecture: The network; its number of classes is ignored, because the head's parameters decide it.
        parameters: All parameters by their name in timm or transformers, dense or
            :class:`~lgx.hypernet.low_rank_tensor.LowRankTensor`.
        inputs: Images, (B, C, H, W), or texts, (B, 3, N).

    Returns:
        Logits, (B, K), or (B, N, V) of a language model.
    """
    return cast(Tensor, functional_call(_headless(architecture, inputs.device), dict(parameters), (inputs,)))


def functional_forward_with_features(
    architecture: Architecture, parameters: Mapping[str, Tensor], inputs: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute logits and features of an architecture with these parameters.

    Returns:
        Logits, (B, K), or (B, N, V) of a language model, and features after the last norm, (B, D): of a ViT's class
        token, or of a text's last token, of a language model the mean of the text's tokens.
    """
    named = {f"network.{name}": parameter for name, parameter in parameters.items()}
    return cast(
        tuple[Tensor, Tensor], functional_call(_WithFeatures(_headless(architecture, inputs.device)), named, (inputs,))
    )


def _headless(architecture: Architecture, device: torch.device) -> nn.Module:
    """The skeleton with one class, so that all numbers of classes share it in the cache."""
    return skeleton(architecture.replace(num_classes=1), str(device))


class _Layer(nn.Module):
    """A layer of timm's plain ViT that computes the same values and gradients with fewer operations.

    Queries, keys and values are views, so that neither they nor their gradients are copied. If the head uses only the
    class token, the last layer computes no other token, and no keys and values. Layer scale, norms of queries and keys,
    and dropout, which timm's layers support, are missing, because no architecture here has them.

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
        return cast(Tensor, x + self.mlp(self.norm2(x)))

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
        heads = self.attn.num_heads
        weight = self.attn.qkv.weight
        if isinstance(weight, LowRankTensor):  # A (B x): x stands for B x below
            x = F.linear(x, weight.b)
            weight = weight.a
        w_q, w_k, w_v = weight.chunk(3)
        bias_q, _, bias_v = self.attn.qkv.bias.chunk(3)
        q = rearrange(F.linear(x[:, 0], w_q, bias_q), "b (h d) -> h b d", h=heads)
        queries = rearrange(q @ w_k.unflatten(0, (heads, -1)), "h b inp -> b 1 h inp")  # Kᵀ q
        tokens = x[:, None]
        mean = F.scaled_dot_product_attention(queries, tokens, tokens, scale=q.shape[-1] ** -0.5)
        of_heads = w_v.unflatten(0, (heads, -1)), rearrange(mean, "b 1 h inp -> h inp b")
        return rearrange(torch.baddbmm(bias_v.view(heads, -1, 1), *of_heads), "h d b -> b 1 (h d)")


class _WithFeatures(nn.Module):
    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits, and the features (B, D) of images (B, C, H, W) or texts (B, 3, N)."""
        if isinstance(self.network, VisionTransformer):
            features = self.network.forward_features(inputs)[:, 0]
            return self.network.head(features), features
        if self.network.is_language_model:
            tokens, logits = self.network.tokens_and_logits(inputs)
            return logits, self.network.pooled(tokens, inputs[:, 1])
        features = self.network.features(inputs)
        return self.network.get_submodule(self.network.head_name)(features), features


Projection = Literal["predicted", "random", "none"]
"""How features are projected to the ancestor's width; see :func:`meta_batch_loss`."""
_PROJECTION = "projection.weight"
"""Name of the predicted matrix M that projects a network's features to the ancestor's width (TAL, Eq. 4)."""


def meta_batch_loss(
    hypernet: Hypernet,
    architectures: Sequence[Architecture],
    inputs: Tensor,
    loss: Callable[[Tensor, Tensor], Tensor],
    task_embedding: Tensor | None = None,
    projection: Projection = "none",
    width: int = 0,
) -> tuple[Tensor, Tensor]:
    """Predict the parameters of m architectures, and evaluate the loss of each network on the same inputs.

    Low-rank weights stay factored: their products are never computed. The loss may also compare the networks' features
    with an ancestor's (TAL, Eq. 6).

    Args:
        hypernet: The hypernetwork.
        architectures: The m architectures.
        inputs: Images, (B, C, H, W), or token ids, (B, N).
        loss: Computes one loss, a scalar, or several, (k,), from logits (B, K) and features, projected (B, T) or as
            they are (B, D); see :func:`~lgx.hypernet.functional_forward.functional_forward_with_features`.
        task_embedding: Task embedding, (T,), if the hypernetwork takes one.
        projection: ``none`` passes the features unchanged; ``predicted`` predicts M and counts its norm too, as in the
            paper; ``random`` creates a new random linear layer at each step, as TAL's official code does.
        width: Width T of the ancestor's features, for a projection.

    Returns:
        The mean loss over the architectures, a scalar or (k,), and the mean of Σ ‖W‖_F over the predicted parameters, a
        scalar, which the training penalizes.
    """
    convention = hypernet.config.convention
    graphs = [computational_graph(architecture, convention) for architecture in architectures]
    if projection == "predicted":
        graphs += [projection_graph(architecture, width, convention) for architecture in architectures]
    joined = hypernet.predict_graphs(graphs, task_embedding, layer_inputs(architectures, inputs))
    predicted = joined.by_name(len(graphs))
    losses = []
    for i, architecture in enumerate(architectures):
        add_class_token(architecture, predicted[i])
        logits, features = functional_forward_with_features(architecture, predicted[i], inputs)
        if projection == "predicted":
            features = F.linear(features, predicted[len(architectures) + i][_PROJECTION])
        elif projection == "random":
            features = nn.Linear(architecture.embed_dim, width, device=inputs.device)(features)
        losses.append(loss(logits, features))
    return torch.stack(losses).mean(dim=0), joined.sum_of_norms() / len(architectures)


def layer_inputs(architectures: Sequence[Architecture], inputs: Tensor) -> int:
    """Most vectors, over all positions of images (B, C, H, W) or token ids (B, N), that a layer multiplies."""
    tokens = [1 + math.prod(a.grid) if isinstance(a, ViTArchitecture) else inputs.shape[-1] for a in architectures]
    return len(inputs) * max(tokens)


def projection_graph(architecture: Architecture, width: int, convention: Convention = "msa") -> Graph:
    """The architecture's graph with an additional node M, after the last norm and next to the head.

    M is the only node with a parameter: the others' parameters, which are predicted from the graph without M, are
    exactly those that are predicted for a network without a projection.
    """
    graph = computational_graph(architecture, convention)
    count = len(graph.nodes)
    norm = max(n for n, node in enumerate(graph.nodes) if node.op == "ln")
    lengths = np.zeros((count + 1, count + 1), dtype=np.int16)
    lengths[:count, :count] = graph.lengths
    to_norm = graph.lengths[:, norm]
    lengths[:count, count] = np.where(to_norm > 0, to_norm + 1, to_norm)
    lengths[norm, count] = 1
    nodes = [replace(node, parameter=None) for node in graph.nodes]
    return Graph((*nodes, Node("conv", _PROJECTION, (width, architecture.embed_dim))), lengths)
