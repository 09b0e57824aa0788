"""SnapViT: the start."""

from collections.abc import Collection
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from lgx.architectures import Architecture, vit_only
from lgx.methods.checks import check_option
from lgx.methods.snapvit.evolution import maximize
from lgx.methods.snapvit.scores import features, kept_of, score, without
from lgx.methods.weight_subcloning.importance import STREAM, Importance
from lgx.methods.weight_subcloning.initializer import WeightSubcloning

_CUTS = ((0.25, 0.1), (0.45, 0.3), (0.65, 0.5))
"""Shares of the neurons and of the heads that go while the search runs."""
_LEAST = 0.2
"""Share of the neurons and heads of a layer that always stays."""
_COMPONENTS = 64
"""Principal components of the features that are compared."""
_FIRST, _LAST = 1.2, 0.8
"""Factors of the first and of the last layer where the search starts."""


class SnapViT(WeightSubcloning):
    """The ancestor's heads and neurons with the largest scores; the scores come from images without labels.

    A score is the squared gradient of a self-supervised loss (:func:`~lgx.methods.snapvit.scores.score`), times a
    factor of its MLP or its head. The factors are searched by xNES: the features of the ancestor without the lowest
    scored heads and neurons, at three shares, are to stay like its own (cosine similarity in principal components).

    Departures. The paper cuts each layer to another width; descendants here have the same in all, so that the factors
    decide about heads and layers alone. It keeps all layers and the width of the residual stream; where a descendant
    has fewer, those with the largest sums of scores stay. It corrects no weights by default, and neither do we. The
    crops keep the shape of the image. Shares, factors and components are the defaults of the official code.

    Simoncini et al., "Elastic ViTs from pretrained models without retraining", NeurIPS 2025,
    https://arxiv.org/abs/2510.17700

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
        data: Folder with images, also in folders below it; of a folder with splits only ``train`` is read.
        images: How many images are read; the paper reads 1,000.
        evaluations: How many factors the search tries.
    """

    method = "snapvit"
    keeps_scale = False

    def __init__(self, source: str, data: str, images: int = 64, evaluations: int = 50) -> None:
        super().__init__(source, data, images, drop="magnitude")
        check_option("evaluations", evaluations, evaluations >= 1, "at least 1")
        self.evaluations = evaluations

    def named(self, architecture: Architecture) -> str:
        """The method."""
        return self.method

    @cached_property
    def ranked(self) -> Importance:
        """Scores of the source's parts; those of layers are the sums of their heads' and neurons', each of mean 1."""
        model, vit, generator = self.loaded.model.eval(), self.vit, torch.Generator().manual_seed(0)
        scores = score(model, vit, self._sample, generator)
        depth, owners = vit.depth, (list(scores.neurons), list(scores.heads))
        neurons, heads = list(scores.neurons.values()), list(scores.heads.values())
        with torch.no_grad():
            wanted = features(model, self._sample)
            mean = wanted.mean(0)
            axes = torch.linalg.svd(wanted - mean, full_matrices=False).Vh[:_COMPONENTS].T

        def factored(factors: Tensor) -> tuple[list[Tensor], list[Tensor]]:
            own, of_heads = factors.abs().float().split([depth, factors.numel() - depth])
            each = of_heads.reshape(depth, -1)
            return [a * b for a, b in zip(neurons, own, strict=True)], [
                a * b[:, None] for a, b in zip(heads, each, strict=True)
            ]

        @torch.no_grad()
        def likeness(factors: Tensor) -> float:
            mine, theirs = factored(factors)
            found = 0.0
            for of_neurons, of_heads in _CUTS:
                kept = kept_of([values.mean(1) for values in theirs], of_heads, _LEAST)
                masks = {
                    ("heads", owner): mask.repeat_interleave(values.shape[1])
                    for owner, mask, values in zip(owners[1], kept, theirs, strict=True)
                }
                masks |= {("hidden", o): m for o, m in zip(owners[0], kept_of(mine, of_neurons, _LEAST), strict=True)}
                with without(model, vit, masks):
                    cut = features(model, self._sample)
                found += float(F.cosine_similarity((cut - mean) @ axes, (wanted - mean) @ axes, dim=1).mean())
            return found / len(_CUTS)

        first = torch.linspace(_FIRST, _LAST, depth)
        start = torch.cat([first, first.repeat_interleave(len(heads[0]))])
        mine, theirs = factored(maximize(likeness, start, self.evaluations, generator))
        elements = {("hidden", owner): values for owner, values in zip(owners[0], mine, strict=True)}
        elements |= {("heads", owner): values.flatten() for owner, values in zip(owners[1], theirs, strict=True)}
        sums = [torch.stack([values.mean() for values in kind]) for kind in (mine, theirs)]
        return Importance({**elements, STREAM: scores.stream}, sums[0] / sums[0].mean() + sums[1] / sums[1].mean())

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Which layers were kept, and what the scores were measured on."""
        layers = self.layers(vit_only(architecture, self.method).depth)
        return (
            f"layers    {' '.join(map(str, layers))} of the source, counted from 0: those with the largest scores",
            f"ranked    by gradients on {len(self._sample)} images of {self.data}; {self.evaluations} factors tried",
        )
