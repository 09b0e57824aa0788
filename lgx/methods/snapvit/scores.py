"""How much the heads, neurons and dimensions of a ViT matter: squared gradients of a loss without labels."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lgx.architectures import ViTArchitecture
from lgx.architectures.axes import axes_of

_GLOBAL, _LOCAL = (0.25, 1.0), (0.05, 0.25)
"""Shares of an image's area that its views show."""
_VIEWS = 10
"""Local views of an image, beside two global ones."""


class Scores(NamedTuple):
    """Scores of a network; owners are those of axes.

    Attributes:
        neurons: Of each MLP, (hidden,).
        heads: Of each element of an attention's values, (heads, width).
        stream: Of the dimensions of the residual stream, (D,).
    """

    neurons: Mapping[str, Tensor]
    heads: Mapping[str, Tensor]
    stream: Tensor


def score(model: Any, architecture: ViTArchitecture, images: Tensor, generator: torch.Generator) -> Scores:
    """Squared gradients of the weights that make heads and neurons, mean over images (Eq. 3 of the paper).

    The loss is the cross-entropy of all views of an image with its two global ones, of softmaxed normalized features
    (Eq. 4); a view is not compared with itself. As in the official code a head is scored by its values, and the
    temperature is 1. The residual stream, which the paper does not cut, is scored by the inputs of the same weights.

    Args:
        model: The network, in eval mode.
        architecture: Its description.
        images: Normalized images, (N, C, H, W).
        generator: Source of the views.
    """
    made = {name: axes[0] for name, _ in model.named_parameters() if (axes := axes_of(architecture, name)) and axes[0]}
    made = {n: a for n, a in made.items() if n.endswith("weight") and a.kind in ("hidden", "heads")}
    weights = {name: parameter for name, parameter in model.named_parameters() if name in made}
    sums = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for image in images:
        gradients = torch.autograd.grad(_loss(model, _views(image, generator)), list(weights.values()))
        for name, gradient in zip(weights, gradients, strict=True):
            sums[name] += gradient.detach().square() / len(images)
    neurons, heads, stream = {}, {}, torch.zeros(architecture.embed_dim)
    for name, squares in sums.items():
        axis = made[name]
        stream += squares.mean(0)
        by_part = squares.mean(1).reshape(axis.parts, -1)
        if axis.kind == "heads":
            heads[axis.owner] = by_part[-1].reshape(axis.heads, -1)
        else:
            neurons[axis.owner] = by_part.mean(0)
    return Scores(neurons, heads, stream)


def _views(image: Tensor, generator: torch.Generator) -> Tensor:
    """(C, H, W) -> (2 + V, C, H, W): random crops of its size, two global ones first."""
    rows, columns = image.shape[1:]
    views = []
    for low, high in [_GLOBAL] * 2 + [_LOCAL] * _VIEWS:
        area, place = torch.rand(2, generator=generator), torch.rand(2, generator=generator)
        side = float((low + (high - low) * area[0]).sqrt())
        height, width = max(1, round(side * rows)), max(1, round(side * columns))
        top, left = int(place[0] * (rows - height + 1)), int(place[1] * (columns - width + 1))
        crop = image[None, :, top : top + height, left : left + width]
        views.append(F.interpolate(crop, size=(rows, columns), mode="bilinear", antialias=True, align_corners=False))
    return torch.cat(views)


def features(model: Any, images: Tensor) -> Tensor:
    """What a head reads, (B, D)."""
    found: Tensor = model.forward_head(model.forward_features(images), pre_logits=True)
    return found


def _loss(model: Any, views: Tensor) -> Tensor:
    found = F.normalize(features(model, views), dim=1)
    wanted, answers = found[:2].detach().softmax(dim=1), found.log_softmax(dim=1)
    losses = -wanted @ answers.T
    return losses.sum() - losses.diagonal().sum()


@contextmanager
def without(model: nn.Module, architecture: ViTArchitecture, kept: Mapping[tuple[str, str], Tensor]) -> Iterator[None]:
    """Run a network without some heads and neurons: what reads them gets zeros.

    Args:
        model: The network.
        architecture: Its description.
        kept: (kind, owner) of an axis -> which of its elements are kept.
    """

    def hook(mask: Tensor) -> Any:
        return lambda _module, inputs: (inputs[0] * mask,)

    hooks = []
    for name, module in model.named_modules():
        axis = axes_of(architecture, f"{name}.weight")[1] if isinstance(module, nn.Linear) else None
        if axis is not None and (axis.kind, axis.owner) in kept:
            hooks.append(module.register_forward_pre_hook(hook(kept[axis.kind, axis.owner].float())))
    try:
        yield
    finally:
        for each in hooks:
            each.remove()


def kept_of(scores: Sequence[Tensor], share: float, least: float) -> list[Tensor]:
    """Which elements stay when a share of all goes, the smallest first, but ``least`` of each tensor stays."""
    protected = []
    for values in scores:
        top = values.argsort(descending=True, stable=True)[: int(least * len(values))]
        protected.append(values.index_fill(0, top, float("inf")))
    together = torch.cat(protected)
    mask = torch.ones(len(together), dtype=torch.bool)
    mask[together.argsort(stable=True)[: int(share * len(together))]] = False
    return list(mask.split([len(values) for values in scores]))
