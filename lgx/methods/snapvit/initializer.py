"""SnapViT: the start."""

from collections.abc import Collection
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import Tensor

from lgx.architectures import Architecture, vit_only
from lgx.errors import UserError
from lgx.methods.checks import check_option
from lgx.methods.snapvit.evolution import maximize
from lgx.methods.snapvit.scores import Scores, features, kept_of, score, without
from lgx.methods.weight_subcloning.importance import STREAM, Importance
from lgx.methods.weight_subcloning.initializer import WeightSubcloning

_CUTS, _LEAST, _COMPONENTS, _FIRST, _LAST = ((0.25, 0.1), (0.45, 0.3), (0.65, 0.5)), 0.2, 64, 1.2, 0.8
"""Shares of neurons and heads that go during the search, and of those of a layer that stay; principal components that
are compared; factors of the first and the last layer where the search starts."""


class SnapViT(WeightSubcloning):
    """The ancestor's heads and neurons with the largest scores; the scores come from images without labels.

    A score is the squared gradient of a self-supervised loss (:func:`~lgx.methods.snapvit.scores.score`), times a
    factor of its MLP or its head, which xNES searches: the features of the ancestor without the lowest scored heads and
    neurons are to stay like its own. Numbers that are no options are the defaults of the official code.

    Departures: the paper cuts each layer to another width, descendants here have the same in all, so that the factors
    decide about heads and layers alone. It keeps all layers and the width of the residual stream; where a descendant
    has fewer, those with the largest sums of scores stay. Crops keep the shape of the image.

    Simoncini et al., "Elastic ViTs from Pretrained Models without Retraining", NeurIPS 2025,
    https://arxiv.org/abs/2510.17700

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
        data: Folder with images, also in folders below it; of a folder with splits only ``train`` is read. Needed.
        images: How many images are read; the paper reads 1,000.
        evaluations: How many vectors of factors the search tries; as in the official code by default.
    """

    method = "snapvit"
    keeps_scale = False

    def __init__(self, source: str, data: str | None = None, images: int = 64, evaluations: int = 250) -> None:
        super().__init__(source, data, images)
        check_option("evaluations", evaluations, evaluations >= 1, "at least 1")
        self.drop, self.evaluations = "magnitude", evaluations

    def named(self, architecture: Architecture) -> str:
        """The method."""
        return self.method

    @cached_property
    def ranked(self) -> Importance:
        """Scores of the source's parts; that of a layer is the sum over its MLP and its attention, of means of 1."""
        if self.data is None:
            raise UserError("data: SnapViT scores heads and neurons on images; name a folder of images")
        model, generator = self.loaded.model.eval(), torch.Generator().manual_seed(0)
        scores = score(model, self.vit, self._sample, generator)
        cut = [key for key in scores if key != STREAM]
        counts = [len(scores[key]) if key[0] == "heads" else 1 for key in cut]

        def factored(factors: Tensor) -> Scores:
            each = factors.abs().float().split(counts)
            return {key: scores[key] * own[:, None] for key, own in zip(cut, each, strict=True)}

        with torch.no_grad():
            whole = features(model, self._sample)
        mean = whole.mean(0)
        components = torch.linalg.svd(whole - mean, full_matrices=False).Vh[:_COMPONENTS].T

        @torch.no_grad()
        def likeness(factors: Tensor) -> float:
            matrix, found = factored(factors), 0.0
            for neurons, heads in _CUTS:
                kept = kept_of(matrix, "hidden", neurons, _LEAST) | kept_of(matrix, "heads", heads, _LEAST)
                with without(model, self.vit, kept):
                    rest = features(model, self._sample)
                found += float(F.cosine_similarity((rest - mean) @ components, (whole - mean) @ components).mean())
            return found

        first: dict[tuple[str, str], Tensor] = {}
        for kind in ("hidden", "heads"):
            keys = [key for key in cut if key[0] == kind]
            first |= zip(keys, torch.linspace(_FIRST, _LAST, len(keys)), strict=True)
        start = torch.cat([first[key].expand(count) for key, count in zip(cut, counts, strict=True)])
        found = factored(maximize(likeness, start, self.evaluations, generator))
        layers, prefix = torch.zeros(self.vit.depth), self.vit.layers
        for (kind, owner), values in found.items():
            if owner.startswith(prefix):
                mean_of_kind = torch.stack([each.mean() for key, each in found.items() if key[0] == kind]).mean()
                layers[int(owner.removeprefix(prefix).partition(".")[0])] += values.mean() / mean_of_kind
        found[STREAM] = scores[STREAM]
        return Importance({key: values.flatten() for key, values in found.items()}, layers)

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Which layers were kept."""
        layers = self.layers(vit_only(architecture, self.method).depth)
        return (f"layers    {' '.join(map(str, layers))} of the source, counted from 0: those with the largest scores",)
