"""SnapViT: the start, its scores, and its search, exponential natural evolution strategies (xNES)."""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from math import log
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lgx.architectures import Architecture, ViTArchitecture, vit_only
from lgx.architectures.parameter_axes import axes_of
from lgx.components.features import before_head
from lgx.errors import UserError
from lgx.methods.weight_subcloning.importance import STREAM, Importance
from lgx.methods.weight_subcloning.initializer import WeightSubcloning

Scores = dict[tuple[str, str], Tensor]
"""By (kind, owner) of an axis: of heads (heads, width of a head), of neurons (hidden, 1), of the stream (D, 1)."""

_GLOBAL = (0.25, 1.0)
_LOCAL = (0.05, 0.25)
_NUMBER = 10
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
        seen = F.normalize(before_head(model, _views(image, generator)), dim=1)
        losses = -seen[:2].detach().softmax(dim=1) @ seen.log_softmax(dim=1).T
        loss = losses.sum() - losses.diagonal().sum()
        gradients = torch.autograd.grad(loss, [parameter for parameter, _ in weights.values()])
        for name, gradient in zip(weights, gradients, strict=True):
            squares[name] += gradient.square() / len(images)
    scores: Scores = {STREAM: torch.zeros(architecture.embed_dim, 1)}
    for name, (_, axis) in weights.items():
        rows = squares[name].mean(1).reshape(axis.parts, -1)
        units = rows[-1].reshape(axis.heads, -1) if axis.kind == "heads" else rows.mean(0)[:, None]
        key = axis.kind, axis.owner
        scores[key] = scores[key] + units if key in scores else units
        scores[STREAM] += squares[name].mean(0)[:, None]
    return scores


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
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            axis = axes_of(architecture, f"{name}.weight")[1] if isinstance(module, nn.Linear) else None
            mask = None if axis is None else kept.get((axis.kind, axis.owner))
            if mask is not None:
                masked = module.register_forward_pre_hook(lambda _, inputs, mask=mask: (inputs[0] * mask,))
                hooks.enter_context(masked)
        yield


def maximize(value: Callable[[Tensor], float], start: Tensor, evaluations: int, generator: torch.Generator) -> Tensor:
    """The best point (N,) of so many evaluations of xNES, from a start (N,).

    Glasmachers et al., "Exponential natural evolution strategies", GECCO 2010, with the defaults of its Table 1; the
    first step width is ours.
    """
    size = len(start)
    steps = 4 + int(3 * log(len(start)))
    utilities = (log(steps / 2 + 1) - torch.arange(1, steps + 1, dtype=torch.float64).log()).clamp_min(0)
    utilities = utilities / utilities.sum() - 1 / steps
    rate = 0.6 * (3 + log(size)) / size**1.5
    mean = start.double()
    width = 0.1
    shape = torch.eye(size, dtype=torch.float64)
    best = mean
    most = value(mean)
    for _ in range((evaluations - 1) // steps):
        drawn = torch.randn(steps, size, dtype=torch.float64, generator=generator)
        points = mean + width * drawn @ shape
        values = torch.tensor([value(point) for point in points], dtype=torch.float64)
        if values.max() > most:
            best = points[values.argmax()]
            most = float(values.max())
        ranked = drawn[values.argsort(descending=True, stable=True)]
        spread = (utilities[:, None] * ranked).T @ ranked  # the utilities add up to 0
        scale = spread.trace() / size
        mean = mean + width * (utilities @ ranked) @ shape
        width *= float((rate / 2 * scale).exp())
        shape = torch.matrix_exp(rate / 2 * (spread - scale * torch.eye(size, dtype=torch.float64))) @ shape
    return best


EVALUATIONS = 250
"""Number of evaluations in the search."""
_CUTS = ((0.25, 0.1), (0.45, 0.3), (0.65, 0.5))
_LEAST = 0.2
_COMPONENTS = 64
_FIRST = 1.2
_LAST = 0.8
"""Shares of neurons and heads that go during the search, and of those of a layer that stay; principal components that
are compared; factors of the first and the last layer where the search starts."""


class SnapViT(WeightSubcloning):
    """The ancestor's heads and neurons with the largest scores; the scores come from images without labels.

    A score is the squared gradient of a self-supervised loss (:func:`~lgx.methods.snapvit.initializer.score`), times a
    factor of its MLP or its head, which xNES searches: the features of the ancestor without the lowest scored heads and
    neurons are to stay like those of the whole. Numbers that are no options are the defaults of the official code.

    Departures: the paper cuts each layer to another width, descendants here have the same in all, so that the factors
    decide about heads and layers alone. It keeps all layers and the width of the residual stream; where a descendant
    has fewer, those with the largest sums of scores stay. Crops keep the shape of the image.

    Simoncini et al., "Elastic ViTs from Pretrained Models without Retraining", NeurIPS 2025,
    https://arxiv.org/abs/2510.17700

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
        data: Required folder with images, at any depth; if it has splits, only ``train`` is read.
        images: Number of images; the paper uses 1,000.
    """

    method = "snapvit"
    keeps_scale = False

    def __init__(self, source: str, data: str | None = None, images: int = 64) -> None:
        super().__init__(source, data, images)
        self.drop = "magnitude"

    def named(self, architecture: Architecture) -> str:
        """The method."""
        return self.method

    @cached_property
    def ranked(self) -> Importance:
        """Scores of the source's parts; that of a layer is the sum over its MLP and its attention, of means of 1."""
        if self.data is None:
            raise UserError("data: SnapViT scores heads and neurons on images; give a folder of images")
        model = self.loaded.model.eval()
        generator = torch.Generator().manual_seed(0)
        scores = score(model, self.vit, self.sample, generator)
        cut = [key for key in scores if key != STREAM]
        counts = [len(scores[key]) if key[0] == "heads" else 1 for key in cut]

        def factored(factors: Tensor) -> Scores:
            each = factors.abs().float().split(counts)
            return {key: scores[key] * factor[:, None] for key, factor in zip(cut, each, strict=True)}

        with torch.no_grad():
            whole = before_head(model, self.sample)
        mean = whole.mean(0)
        components = torch.linalg.svd(whole - mean, full_matrices=False).Vh[:_COMPONENTS].T

        @torch.no_grad()
        def likeness(factors: Tensor) -> float:
            matrix = factored(factors)
            total = 0.0
            for neurons, heads in _CUTS:
                kept = kept_of(matrix, "hidden", neurons, _LEAST) | kept_of(matrix, "heads", heads, _LEAST)
                with without(model, self.vit, kept):
                    rest = before_head(model, self.sample)
                total += float(F.cosine_similarity((rest - mean) @ components, (whole - mean) @ components).mean())
            return total

        first: dict[tuple[str, str], Tensor] = {}
        for kind in ("hidden", "heads"):
            keys = [key for key in cut if key[0] == kind]
            first |= zip(keys, torch.linspace(_FIRST, _LAST, len(keys)), strict=True)
        start = torch.cat([first[key].expand(count) for key, count in zip(cut, counts, strict=True)])
        scaled = factored(maximize(likeness, start, EVALUATIONS, generator))
        layers = torch.zeros(self.vit.depth)
        prefix = self.vit.layers
        for (kind, owner), values in scaled.items():
            if owner.startswith(prefix):
                mean_of_kind = torch.stack([each.mean() for key, each in scaled.items() if key[0] == kind]).mean()
                layers[int(owner.removeprefix(prefix).partition(".")[0])] += values.mean() / mean_of_kind
        scaled[STREAM] = scores[STREAM]
        return Importance({key: values.flatten() for key, values in scaled.items()}, layers)

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Which layers were kept."""
        layers = self.layers(vit_only(architecture, self.method).depth)
        return (f"layers    {' '.join(map(str, layers))} of the source, counted from 0: those with the largest scores",)
