"""Nested learngenes: the training."""

import random
import shlex
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lgx.architectures import Architecture
from lgx.artifacts.learngene import WHOLE, Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.components.features import Features, feature_losses
from lgx.core.batch import Batch
from lgx.core.schema import check_option
from lgx.initialization import Sizes
from lgx.methods.nested import SPEC
from lgx.methods.nested.feature_slices import FeatureSlices
from lgx.methods.nested.sliced_network import ORDER
from lgx.methods.nested.slicing import for_slices

_LARGEST = torch.finfo(torch.float16).max
_SHARES = (0.5, 0.75, 1.0)
"""MLP ratios of random sizes, as shares of the ancestor's; the smallest size has the first."""


class Nested(FeatureSlices):
    """Train an ancestor's weights so that its slices of all depths and widths imitate it, without labels.

    See :class:`~lgx.methods.nested.sliced_network.SlicedNetwork` for the slices. Each step draws sizes and trains their
    slices on one batch; the gradients of all meet in the shared weights. The loss of a slice is the distance of its
    features from the ancestor's, through one learned projection that is sliced, too
    (:func:`~lgx.components.features.feature_losses`), plus the cross-entropy with the ancestor's predictions where the
    ancestor has a head.

    That a network holds all smaller ones, and that a step trains the smallest and random ones, is of Cai et al.,
    "Once-for-All", ICLR 2020, and Yu et al., "Universally Slimmable Networks", ICCV 2019 (their sandwich rule also
    draws the largest); MatFormer (Kudugunta et al., NeurIPS 2024) and Scala (Zhang et al., NeurIPS 2024) train ViTs so.
    That the order and the weights are a pretrained ancestor's, that depth and width vary together, that no labels are
    needed, and that slices start a fine-tuning, is ours. One set of weights for all sizes makes large networks forget;
    so the larger a slice, the nearer its weights stay to the ancestor's, which the learngene keeps beside the trained
    ones (:func:`~lgx.methods.nested.slicing.trained_share`). A descendant of the ancestor's own size is the ancestor.

    Labels of texts are not read.

    Args:
        draws: Number of random sizes in each step, besides the smallest size.
        least_depth: Number of layers of the smallest size.
        kwargs: Arguments of ``Distill`` and of every method. ``arch`` is the ancestor's; ``start`` and
            ``guidance`` cannot be given.
    """

    spec = SPEC

    def __init__(self, draws: int = 2, least_depth: int = 3, **kwargs: Any) -> None:
        super().__init__(guidance="features", **kwargs)
        check_option("draws", draws, draws >= 0, "a number of sizes, at least 0")
        depth = self.parsed_architecture.depth
        check_option("least_depth", least_depth, 1 <= least_depth <= depth, f"a number of layers, 1 to {depth}")
        self.draws, self.least_depth = draws, least_depth

    # -- sizes ----------------------------------------------------------------------------------------------------

    @cached_property
    def task_architecture(self) -> Architecture:
        """The architecture in ``arch`` with the classes of the ancestor's head."""
        source = load_pretrained(self.ancestor or "")
        architecture = self.parsed_architecture
        ancestor = source.require_architecture("model.ancestor")
        has_head = source.has_head and (ancestor.kind == architecture.kind or not architecture.reads_text)
        return architecture.replace(num_classes=ancestor.num_classes if has_head else 0)

    @cached_property
    def measured(self) -> list[Architecture]:
        """Sizes that validation measures: half of the layers, a quarter, half at two thirds of the width, and small."""
        depth, width = self.architecture.depth, self.architecture.embed_dim
        head = Sizes.within(self.architecture).head
        half, quarter = max(1, depth // 2), max(1, depth // 4)
        narrower = max(head, 2 * width // 3 // head * head)
        sizes = (half, width), (quarter, width), (half, narrower), (quarter, head)
        return list(dict.fromkeys(self.size(*each, share=1.0) for each in sizes))

    def size(self, depth: int, width: int, share: float) -> Architecture:
        """A size; ``share`` is that of the ancestor's MLP ratio, rounded to one that exists."""
        sizes = Sizes.within(self.architecture)
        wanted = share * self.architecture.mlp_ratio
        return sizes.network(depth, width, min(sizes.ratios(width), key=lambda ratio: abs(ratio - wanted)))

    def draw(self, *parts: int) -> list[Architecture]:
        """See :class:`SlicedNetwork`: the smallest size, and random ones up to the whole network."""
        widths = Sizes.within(self.architecture).widths()
        generator = random.Random(repr(parts))
        sizes = [self.size(self.least_depth, widths[0], _SHARES[0])]
        for _ in range(self.draws):
            depth = generator.randint(self.least_depth, self.architecture.depth)
            sizes.append(self.size(depth, generator.choice(widths), generator.choice(_SHARES)))
        return sizes

    # -- network --------------------------------------------------------------------------------------------------

    def extend(self, network: Any) -> None:
        """Add the whole ancestor, which stays as it is."""
        network.whole = self.architecture.build().requires_grad_(False)

    def begin(self, network: Any, tensors: Mapping[str, Tensor], order: Tensor) -> None:
        """Load the ordered ancestor twice."""
        super().begin(network, tensors, order)
        network.whole.load_state_dict(tensors, strict=False)

    # -- losses ---------------------------------------------------------------------------------------------------

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss``, the mean over the sizes of the step, and its parts."""
        real = self.real_tokens(batch)
        answers = self._teacher_of(batch).features_and_logits(batch.inputs, real)
        sizes = self.drawn or self.draw(0)
        parts = []
        for size, parameters in zip(sizes, for_slices(self.parameters_by_name, len(sizes)), strict=True):
            outputs = self.outputs(size, batch.inputs, real, parameters)
            parts.append(self._losses(*outputs, *answers, batch))
        means: dict[str, Tensor] = {}
        for name in parts[0]:
            means[name] = torch.stack([part[name] for part in parts]).mean()
        return means

    def _losses(
        self, features: Features, logits: Tensor, wanted: Features, answers: Tensor, batch: Batch
    ) -> dict[str, Tensor]:
        distances, _ = feature_losses(features, wanted, self.real_tokens(batch))
        distilled = self.mean_loss(distances, batch)
        if not self.architecture.num_classes:
            return {"loss": distilled}
        predictions = self.distilled(logits, answers, batch.targets)
        return {"loss": distilled + predictions, "loss_features": distilled, "loss_distillation": predictions}

    # -- what the run leaves --------------------------------------------------------------------------------------

    def next_command(self, folder: Path) -> str:
        """See :class:`~lgx.methods.base.Method`: start a network of half of the layers."""
        half = max(1, self.architecture.depth // 2)
        return f"lgx init --source {shlex.quote(str(folder))} --arch depth={half} --out start"

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The trained weights, in float16, and beside them those of the ancestor in the same order."""
        tensors = {}
        for name, tensor in self.without_projection(state).items():
            if name != ORDER:
                tensors[name] = tensor if name.startswith(WHOLE) else _in_half(tensor)
        selection = {"layers": list(self.layer_order)}
        ancestor = self.ancestor or ""
        return Learngene(self.method, self.architecture, tensors, ancestor, selection=selection, content="slices")


def _in_half(tensor: Tensor) -> Tensor:
    """The tensor in float16, unless a value is beyond its range; a plan's tensors have no values."""
    return tensor.half() if tensor.is_meta or (tensor.abs() <= _LARGEST).all() else tensor
