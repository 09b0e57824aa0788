"""How much the heads and neurons of a ViT matter: squared gradients of a loss without labels."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lgx.architectures import ViTArchitecture
from lgx.architectures.axes import axes_of
from lgx.methods.weight_subcloning.importance import STREAM

Scores = dict[tuple[str, str], Tensor]
"""By (kind, owner) of an axis: of heads (heads, width of a head), of neurons (hidden, 1), of the stream (D, 1)."""

_GLOBAL, _LOCAL, _NUMBER = (0.25, 1.0), (0.05, 0.25), 10
"""Shares of an image's area that its two global views show, and its local ones; number of local views."""


def score(model: Any, architecture: ViTArchitecture, images: Tensor, generator: torch.Generator) -> Scores:
    """Squared gradients of the weights that make heads and neurons, mean over images (N, C, H, W) (Eq. 3 of the paper).

    The loss is the cross-entropy of all views of an image with its two global ones, of softmaxed normalized features
    (Eq. 4); a view is not compared with itself. As in the official code fused heads are scored by their values, and the
    temperature is 1. The residual stream, which the paper does not cut, is scored by the inputs of the same weights.
    """
    weights = {}
    for name, parameter in model.named_parameters():
        axis = axes_of(architecture, name)[0] if parameter.ndim == 2 else None
        if axis is not None and axis.kind in ("hidden", "heads"):
            weights[name] = parameter, axis
    squares = {name: torch.zeros_like(parameter) for name, (parameter, _) in weights.items()}
    for image in images:
        seen = F.normalize(features(model, _views(image, generator)), dim=1)
        losses = -seen[:2].detach().softmax(dim=1) @ seen.log_softmax(dim=1).T
        loss = losses.sum() - losses.diagonal().sum()
        gradients = torch.autograd.grad(loss, [parameter for parameter, _ in weights.values()])
        for name, gradient in zip(weights, gradients, strict=True):
            squares[name] += gradient.square() / len(images)
    found: Scores = {STREAM: torch.zeros(architecture.embed_dim, 1)}
    for name, (_, axis) in weights.items():
        rows = squares[name].mean(1).reshape(axis.parts, -1)
        units = rows[-1].reshape(axis.heads, -1) if axis.kind == "heads" else rows.mean(0)[:, None]
        key = axis.kind, axis.owner
        found[key] = found[key] + units if key in found else units
        found[STREAM] += squares[name].mean(0)[:, None]
    return found


def _views(image: Tensor, generator: torch.Generator) -> Tensor:
    """(C, H, W) -> (2 + V, C, H, W): random crops in its size, two global ones first."""
    rows, columns = image.shape[1:]
    views = []
    for low, high in (_GLOBAL, _GLOBAL, *[_LOCAL] * _NUMBER):
        area, down, right = torch.rand(3, generator=generator).tolist()
        side = (low + (high - low) * area) ** 0.5
        height, width = max(1, round(side * rows)), max(1, round(side * columns))
        top, left = int(down * (rows - height + 1)), int(right * (columns - width + 1))
        crop = image[None, :, top : top + height, left : left + width]
        views.append(F.interpolate(crop, size=(rows, columns), mode="bilinear", antialias=True, align_corners=False))
    return torch.cat(views)


def features(model: Any, images: Tensor) -> Tensor:
    """What a head reads, (B, D)."""
    found: Tensor = model.forward_head(model.forward_features(images), pre_logits=True)
    return found


def kept_of(scores: Scores, kind: str, share: float, least: float) -> Scores:
    """1 for what stays, else 0, if a share of all goes, the lowest scores first, but ``least`` of each owner stays."""
    means = {key: values.mean(1) for key, values in scores.items() if key[0] == kind}
    for key, values in means.items():
        best = values.argsort(descending=True, stable=True)[: int(least * len(values))]
        means[key] = values.index_fill(0, best, float("inf"))
    together = torch.cat(list(means.values()))
    mask = torch.ones(len(together))
    mask[together.argsort(stable=True)[: int(share * len(together))]] = 0
    parts = mask.split([len(values) for values in means.values()])
    return {key: part.repeat_interleave(scores[key].shape[1]) for key, part in zip(means, parts, strict=True)}


@contextmanager
def without(model: nn.Module, architecture: ViTArchitecture, kept: Mapping[tuple[str, str], Tensor]) -> Iterator[None]:
    """Run a network without some heads and neurons: what reads them gets zeros where :func:`kept_of` has them."""
    hooks = []
    for name, module in model.named_modules():
        axis = axes_of(architecture, f"{name}.weight")[1] if isinstance(module, nn.Linear) else None
        if axis is not None and (mask := kept.get((axis.kind, axis.owner))) is not None:
            hooks.append(module.register_forward_pre_hook(lambda _, inputs, mask=mask: (inputs[0] * mask,)))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
