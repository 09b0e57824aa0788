"""The super ancestor of LSAMD: an ancestor whose every layer has a second block for each data set."""

import copy
from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal, cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from lgx.architectures.forms import ViTNetwork
from lgx.architectures.vit_model import decode_linearly, embed_images
from lgx.core.task import Task

Routing = Literal["batch", "image"]

Layer = Callable[[Tensor], Tensor]
"""A layer with all arguments but its tokens, (B, N, D) -> (B, N, D)."""


class DatasetAdapter(nn.Module):
    """Which block of a layer an image prefers: ``P(h^D|x), P(h^B|x) = softmax(x W1 + softplus(x W2))`` (Eq. 1).

    The paper says neither which token x is nor where noise is added. Ours reads the class token, as heads do, and the
    mean of the tokens where the ancestor has no class token. In training it scales ``softplus(x W2)`` by 1 + ε with
    ε ~ N(0, 1), as Shazeer et al., 2017 do; evaluation is Eq. 1 without noise. Both matrices start at zero, so that an
    untrained adapter prefers no block.

    Args:
        embed_dim: Width of the tokens, D.
        has_class_token: Whether the first token is the class token.
    """

    def __init__(self, embed_dim: int, has_class_token: bool = True) -> None:
        super().__init__()
        self.has_class_token = has_class_token
        self.score = nn.Linear(embed_dim, 2, bias=False)
        self.spread = nn.Linear(embed_dim, 2, bias=False)
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.spread.weight)

    def forward(self, tokens: Tensor) -> Tensor:
        """P(h^B|x) of each image, (B,), from the tokens in front of a layer, (B, N, D)."""
        token = tokens[:, 0] if self.has_class_token else tokens.mean(dim=1)
        spread = F.softplus(self.spread(token).float())
        if self.training:
            spread = spread * (1 + torch.randn_like(spread))
        probabilities: Tensor = (self.score(token).float() + spread).softmax(dim=-1)
        return probabilities[:, 1]


class Branch(nn.Module):
    """The trained parts of one data set: a block and an adapter for every layer, and a head.

    Args:
        base: The ancestor; the blocks start as copies of its own.
        num_classes: Outputs of the head.
    """

    base_share: Tensor
    probability: Tensor

    def __init__(self, base: ViTNetwork, num_classes: int) -> None:
        super().__init__()
        self.blocks = copy.deepcopy(base.blocks).requires_grad_(True)
        has_class_token = base.cls_token is not None
        self.adapters = nn.ModuleList(DatasetAdapter(base.embed_dim, has_class_token) for _ in base.blocks)
        self.head = nn.Linear(base.embed_dim, num_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        # Measured by the last validation, per layer; stored with the weights that it was measured on.
        self.register_buffer("base_share", torch.full((len(base.blocks),), 0.5))
        self.register_buffer("probability", torch.full((len(base.blocks),), 0.5))


class SuperAncestor(nn.Module):
    """A frozen ancestor with a branch per data set, through which every layer may be routed instead.

    The branches share no trained parameter, so that training them together equals training each alone.

    The paper does not say how the adapters learn. Ours get their gradient through a straight-through gate: a layer
    returns ``h(x) + (P − sg(P)) sg(h(x) − x)`` with the chosen block h, its probability P, and sg for "without
    gradient". Its value is exactly ``h(x)``. Its gradient with respect to P says whether the block's residual helps.

    Args:
        base: The ancestor; frozen here.
        tasks: The data sets, classification or segmentation.
        routing: ``batch`` sends the batch through the block that more than half of its images prefer, ``image`` each
            image through its own.
    """

    def __init__(self, base: ViTNetwork, tasks: Sequence[Task], routing: Routing) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.branches = nn.ModuleList(Branch(base, task.num_classes) for task in tasks)
        self.kinds = [task.kind for task in tasks]
        self.routing = routing

    def branch(self, number: int) -> Branch:
        """The branch of data set ``number``."""
        return cast(Branch, self.branches[number])

    def forward(self, images: Tensor, number: int) -> tuple[Tensor, Tensor]:
        """Route images of one data set.

        Args:
            images: (B, C, H, W), normalized as the ancestor's are.
            number: Which data set.

        Returns:
            Logits (B, K), or (B, K, H, W) for segmentation, and P(h^B|x) of every layer and image, (L, B).
        """
        base, branch = self.base, self.branch(number)
        x, shared = embed_images(base, images)
        probabilities = []
        for block, own, adapter in zip(base.blocks, branch.blocks, branch.adapters, strict=True):
            p_base = adapter(x)
            x = self._route(x, p_base, partial(block, **shared), partial(own, **shared))
            probabilities.append(p_base)
        tokens = base.norm(x)
        if self.kinds[number] == "segmentation":
            logits = decode_linearly(tokens[:, base.num_prefix_tokens :], branch.head, base)
        else:
            logits = branch.head(base.forward_head(tokens, pre_logits=True))
        return logits, torch.stack(probabilities)

    def _route(self, x: Tensor, p_base: Tensor, base: Layer, own: Layer) -> Tensor:
        """One layer, (B, N, D) -> (B, N, D)."""
        prefers_base = p_base.detach() >= 0.5  # a tie goes to the base block, as in Eq. 3
        if self.routing == "batch":
            wins = self._majority(prefers_base)
            routed: Tensor = base(x) if wins else own(x)
            chosen_p = p_base if wins else 1 - p_base
        else:
            routed = _each_through_its_own(x, prefers_base, base, own)
            chosen_p = torch.where(prefers_base, p_base, 1 - p_base)
        if not torch.is_grad_enabled():
            return routed
        gate = (chosen_p - chosen_p.detach())[:, None, None].to(routed.dtype)  # 0 in value, 1 in gradient
        return routed + gate * (routed - x).detach()

    def _majority(self, prefers_base: Tensor) -> bool:
        """Whether at least half of the batch prefers the base block; in training, of all processes' batch."""
        lead = 2 * prefers_base.sum() - len(prefers_base)
        if self.training and dist.is_available() and dist.is_initialized():
            dist.all_reduce(lead)  # in evaluation some processes have fewer batches, so that each counts its own
        return bool(lead >= 0)


def _each_through_its_own(x: Tensor, prefers_base: Tensor, base: Layer, own: Layer) -> Tensor:
    """Each image (B, N, D) through the block that it prefers (B,)."""
    if prefers_base.all():
        return base(x)
    if not prefers_base.any():
        return own(x)
    routed = torch.empty_like(x)
    for chosen, block in ((prefers_base, base), (~prefers_base, own)):
        routed[chosen] = block(x[chosen]).to(x.dtype)
    return routed
