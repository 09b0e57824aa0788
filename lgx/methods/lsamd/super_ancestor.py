"""The super ancestor of LSAMD: an ancestor whose every layer has a second block for each data set, and its gates."""

import copy
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, cast

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics import Metric

from lgx.architectures import Architecture
from lgx.architectures.vit_model import decode_linearly, embed_images
from lgx.core.seed import run_seed
from lgx.core.task import Task

Routing = Literal["batch", "image"]
Gate = Literal["chosen", "compared"]
Token = Literal["class", "mean"]

Layer = Callable[[Tensor], Tensor]
"""A layer with all arguments but its tokens, (B, N, D) -> (B, N, D)."""


class DatasetAdapter(nn.Module):
    """Which block of a layer an image or text prefers: ``P(h^D|x), P(h^B|x) = softmax(x W1 + softplus(x W2))`` (Eq. 1).

    The paper says neither which token x is nor where noise is added. Ours reads the class token, as heads do, or the
    mean of the tokens: in front of the first layer the class token has seen no image. Padding of texts does not count.
    In training it scales ``softplus(x W2)`` by 1 + ε with ε ~ N(0, 1), as Shazeer et al., 2017 do; evaluation is Eq. 1
    without noise. Both matrices start at zero, so that an untrained adapter prefers no block.

    Args:
        embed_dim: Width of the tokens, D.
        reads_class_token: Whether it reads the first token, else the mean of all.
    """

    def __init__(self, embed_dim: int, reads_class_token: bool = True) -> None:
        super().__init__()
        self.reads_class_token = reads_class_token
        self.score = nn.Linear(embed_dim, 2, bias=False)
        self.spread = nn.Linear(embed_dim, 2, bias=False)
        nn.init.zeros_(self.score.weight)
        nn.init.zeros_(self.spread.weight)

    def forward(self, tokens: Tensor, real: Tensor | None = None) -> Tensor:
        """P(h^B|x) of each example, (B,), from the tokens in front of a layer, (B, N, D).

        Args:
            tokens: The tokens.
            real: Which tokens of texts are not padding, (B, N); None for images.
        """
        if real is not None:
            real = F.pad(real, (0, tokens.shape[1] - real.shape[1]))  # Longformer fills its last window
            token = (tokens * real.unsqueeze(-1)).sum(dim=1) / real.sum(dim=1, keepdim=True).clamp(min=1)
        else:
            token = tokens[:, 0] if self.reads_class_token else tokens.mean(dim=1)
        spread = F.softplus(self.spread(token).float())
        if self.training:
            spread = spread * (1 + torch.randn_like(spread))
        probabilities: Tensor = (self.score(token).float() + spread).softmax(dim=-1)
        return probabilities[:, 1]


class Branch(nn.Module):
    """The trained parts of one data set: a block and an adapter for every layer, and a head.

    Args:
        base: The ancestor.
        blocks: Its layers, of which the branch's start as copies.
        num_classes: Outputs of the head.
        token: What the adapters read; the mean where the ancestor has no class token.
        measures_swaps: Whether it stores how much the loss rises in each layer without the own block.
    """

    base_share: Tensor
    probability: Tensor
    swap_rise: Tensor | None

    def __init__(
        self, base: Any, blocks: nn.Module, num_classes: int, token: Token = "class", measures_swaps: bool = False
    ) -> None:
        super().__init__()
        self.blocks = cast(nn.ModuleList, copy.deepcopy(blocks).requires_grad_(True))
        width = base.num_features
        depth = len(self.blocks)
        reads_class_token = token == "class" and getattr(base, "cls_token", None) is not None
        self.adapters = nn.ModuleList(DatasetAdapter(width, reads_class_token) for _ in range(depth))
        self.head = nn.Linear(width, num_classes)
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)
        # Measured by the last validation, per layer; stored with the weights that it was measured on.
        self.register_buffer("base_share", torch.full((depth,), 0.5))
        self.register_buffer("probability", torch.full((depth,), 0.5))
        self.register_buffer("swap_rise", torch.full((depth,), torch.nan) if measures_swaps else None)


class SuperAncestor(nn.Module):
    """A frozen ancestor with a branch per data set, through which every layer may be routed instead.

    The branches share no trained parameter, so that training them together equals training each alone.

    The paper does not say how the adapters learn. Here a layer with base block h^B, own block h^D and probabilities P,
    of which sg means "without gradient", returns in training

    - ``chosen``: ``h(x) + (P − sg(P)) sg(h(x) − x)`` with the chosen block h and its probability. Its value is exactly
      ``h(x)``. Its gradient says whether the residual of the *chosen* block helps, and compares nothing.
    - ``compared``: ``h(x) + (P^B − sg(P^B)) sg(h^B(x) − h^D(x))``. Its value is ``h(x)`` too; its gradient compares the
      two blocks, which both run.

    Args:
        base: The ancestor, without a head of its own; frozen here.
        tasks: The data sets: classification and segmentation, or texts.
        routing: ``batch`` sends the batch through the block that more than half of its examples prefer, ``image`` each
            example through its own.
        gate: How the adapters learn.
        token: What they read.
        measures_swaps: Whether the branches store the rise of the loss without each of their blocks.
        layers: Prefix of the names of the ancestor's layers.
    """

    def __init__(
        self,
        base: nn.Module,
        tasks: Sequence[Task],
        routing: Routing,
        gate: Gate = "chosen",
        token: Token = "class",
        measures_swaps: bool = False,
        layers: str = "blocks.",
    ) -> None:
        super().__init__()
        self.base: Any = base.requires_grad_(False)
        self.layers = layers.rstrip(".")
        self.tasks = list(tasks)
        self.routing = routing
        self.gate = gate
        self.branches = nn.ModuleList(
            Branch(base, self.blocks, task.num_classes, token, measures_swaps) for task in tasks
        )

    @property
    def blocks(self) -> nn.ModuleList:
        """The base blocks."""
        return cast(nn.ModuleList, self.base.get_submodule(self.layers))

    def branch(self, number: int) -> Branch:
        """The branch of data set ``number``."""
        return cast(Branch, self.branches[number])

    def forward(self, inputs: Tensor, number: int, path: Sequence[bool] | None = None) -> tuple[Tensor, Tensor]:
        """Route examples of one data set.

        Args:
            inputs: Images (B, C, H, W), normalized as the ancestor's are, or token ids (B, N).
            number: Which data set.
            path: For each layer whether the base block processes all examples, whatever the adapters prefer.

        Returns:
            Logits (B, K), or (B, K, H, W) for segmentation, and P(h^B|x) of every layer and example, (L, B).
        """
        base = self.base
        branch = self.branch(number)
        task = self.tasks[number]
        probabilities: list[Tensor] = []

        def run(layer: int, block: Layer, branch_block: Layer, x: Tensor, real: Tensor | None = None) -> Tensor:
            p_base = cast(Tensor, branch.adapters[layer](x, real))
            probabilities.append(p_base)
            if path is None:
                return self._route(x, p_base, block, branch_block)
            return block(x) if path[layer] else branch_block(x)

        if task.reads_text:
            with _replaced(self.blocks, branch.blocks, partial(run, real=inputs[:, 1].bool())):
                return branch.head(base.features(inputs)), torch.stack(probabilities)
        x, shared = embed_images(base, inputs)
        for layer, (block, branch_block) in enumerate(zip(self.blocks, branch.blocks, strict=True)):
            x = run(layer, partial(block, **shared), partial(branch_block, **shared), x)
        tokens = base.norm(x)
        if task.kind == "segmentation":
            tokens = base.fc_norm(tokens)  # the last norm of networks that pool, whose `norm` does nothing
            logits = decode_linearly(tokens[:, base.num_prefix_tokens :], branch.head, base)
        else:
            logits = branch.head(base.forward_head(tokens, pre_logits=True))
        return logits, torch.stack(probabilities)

    def _route(self, x: Tensor, p_base: Tensor, base: Layer, branch: Layer) -> Tensor:
        """One layer, (B, N, D) -> (B, N, D)."""
        prefers_base = p_base.detach() >= 0.5  # a tie goes to the base block, as in Eq. 3
        majority = self._majority(prefers_base) if self.routing == "batch" else None
        if majority is not None:
            prefers_base = torch.full_like(prefers_base, majority)
        if self.training and torch.is_grad_enabled() and self.gate == "compared":
            of_base = base(x)
            of_branch = branch(x)
            p = p_base[:, None, None]
            gate = (p - p.detach()).to(of_base.dtype)  # 0 in value, 1 in gradient
            return torch.where(prefers_base[:, None, None], of_base, of_branch) + gate * (of_base - of_branch).detach()
        if majority is None and self.tasks[0].reads_text:  # the masks are those of the whole batch
            routed = torch.where(prefers_base[:, None, None], base(x), branch(x))
        elif majority is None:
            routed = _route_images(x, prefers_base, base, branch)
        else:
            routed = base(x) if majority else branch(x)
        if not torch.is_grad_enabled():
            return routed
        chosen_p = torch.where(prefers_base, p_base, 1 - p_base)
        return routed + (chosen_p - chosen_p.detach())[:, None, None].to(routed.dtype) * (routed - x).detach()

    def _majority(self, prefers_base: Tensor) -> bool:
        """Whether at least half of the batch prefers the base block, (B,); in training, of all processes' batch."""
        lead = 2 * prefers_base.sum() - len(prefers_base)
        if self.training and dist.is_available() and dist.is_initialized():
            dist.all_reduce(lead)  # in evaluation some processes have fewer batches, so that each counts its own
        return bool(lead >= 0)


@contextmanager
def _replaced(blocks: nn.ModuleList, of_branch: nn.ModuleList, run: Callable[..., Tensor]) -> Iterator[None]:
    """In the block a network of texts calls ``run`` instead of its layers.

    Only the network itself knows the further arguments of its layers, such as masks and rotations.
    """

    def routed(layer: int, block: Any, hidden_states: Tensor, *more: Any, **named: Any) -> Any:
        outputs: list[Any] = []  # some types return a tuple

        def call(layer: Callable[..., Any], x: Tensor) -> Tensor:
            outputs.append(layer(x, *more, **named))
            return cast(Tensor, outputs[-1][0] if isinstance(outputs[-1], tuple) else outputs[-1])

        blocks = partial(call, partial(type(block).forward, block)), partial(call, of_branch[layer])
        x = run(layer, *blocks, hidden_states)
        return (x, *outputs[-1][1:]) if isinstance(outputs[-1], tuple) else x

    for layer, block in enumerate(blocks):
        block.forward = partial(routed, layer, block)
    try:
        yield
    finally:
        for block in blocks:
            del block.forward


def without_head(base: Any, architecture: Architecture) -> nn.Module:
    """A network without its head, in place."""
    if architecture.reads_text:
        for name in architecture.head_prefixes:
            setattr(base, name.partition(".")[0], nn.Identity())
    else:
        base.reset_classifier(0)
    return cast(nn.Module, base)


def _route_images(x: Tensor, prefers_base: Tensor, base: Layer, branch: Layer) -> Tensor:
    """Run each image (B, N, D) through the block that it prefers (B,)."""
    if prefers_base.all():
        return base(x)
    if not prefers_base.any():
        return branch(x)
    routed = torch.empty_like(x)
    for chosen, block in ((prefers_base, base), (~prefers_base, branch)):
        routed[chosen] = block(x[chosen]).to(x.dtype)
    return routed


def random_path(share: float, step: int, steps: int, depth: int) -> list[bool] | None:
    """The block of each layer in one step, True for the base block; None after this share of the steps.

    All processes draw the same path, and so does a resumed run.
    """
    if step >= share * steps:
        return None
    draw = random.Random(f"{run_seed()} {step}")
    return [draw.random() < 0.5 for _ in range(depth)]


def price_of(probabilities: Tensor) -> Tensor:
    """Σ_i P(h_i^D), in the mean over the images; probabilities are P(h^B|x), (L, B)."""
    return (1 - probabilities).mean(dim=1).sum()


def swapped_paths(depth: int) -> list[Sequence[bool]]:
    """The path of the branch alone, then for each layer the one in which its base block replaces the branch's."""
    return [[layer == swapped for layer in range(depth)] for swapped in range(-1, depth)]


class ImageSums(Metric):
    """Sums over images, and their number, of which validation makes means.

    Args:
        shape: Shape of the sums.
    """

    full_state_update = False
    sums: Tensor
    images: Tensor

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.add_state("sums", torch.zeros(shape), dist_reduce_fx="sum")
        self.add_state("images", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, sums: Tensor, images: int) -> None:
        """Add the sums over the images of a batch, in the shape of the sums."""
        self.sums += sums
        self.images += images

    def compute(self) -> tuple[Tensor, Tensor]:
        """The sums over all batches and processes, and the number of images, a scalar."""
        return self.sums, self.images
