"""What nested learngenes and backbones share: slices whose features are compared with the ancestor's."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from lgx.architectures import Architecture
from lgx.architectures.building import building_on
from lgx.components.features import FeatureProjection, Features, feature_losses
from lgx.components.losses import labeled_logits
from lgx.components.metrics import agreement_with
from lgx.core.batch import Batch
from lgx.core.task import AGREEMENT, Pooling, Task
from lgx.errors import UserError
from lgx.methods.distillation.guidance import projected_features
from lgx.methods.nested.sliced_network import SlicedNetwork
from lgx.methods.nested.slicing import slice_network


class FeatureSlices(SlicedNetwork):
    """Trains slices without labels: their features imitate the ancestor's through one projection, sliced as they are.

    Labels of texts are not read.
    """

    def check_task(self, task: Task) -> None:
        """Refuse a task with labels.

        Raises:
            UserError: If its images have labels, or do not suit the network.
        """
        if task.is_labeled:
            raise UserError(
                f"model {type(self).__name__}: learns only from the ancestor; give --data.labels false, or train "
                "finished networks for the labels with --model Family"
            )
        super().check_task(task)

    def validated_as(self, task: Task) -> Task:
        """Texts without their labels."""
        return replace(task, num_classes=0, metric=AGREEMENT, class_names=()) if task.reads_text else task

    @property
    def pooling(self) -> Pooling:
        """How the ancestor's vector of a text is made of its tokens; so are those of slices."""
        return cast(Pooling, getattr(self.teacher and self.teacher.model, "pooling", "mean"))

    def begin(self, network: Any, tensors: Mapping[str, Tensor], order: Tensor) -> None:
        """Load the ordered ancestor, and a projection that undoes the order."""
        super().begin(network, tensors, order)
        for layer in (network.projection.summary, network.projection.patches):
            if layer.in_features == layer.out_features:
                layer.weight.data.copy_(torch.eye(len(order))[:, order])

    def outputs(
        self, size: Architecture, inputs: Tensor, real: Tensor | None = None, whole: Mapping[str, Tensor] | None = None
    ) -> tuple[Features, Tensor]:
        """What a slice computes: in evaluation the network that is cut, in training with its share of trained weights.

        Args:
            size: Its architecture.
            inputs: Images (B, C, H, W), or token ids (B, N).
            real: Which tokens count, (B, N); None for images.
            whole: The network's parameters by name, see :func:`~lgx.methods.nested.slicing.for_slices`.

        Returns:
            Its features, projected to the ancestor's widths, and its logits.
        """
        whole = whole or self.parameters_by_name
        tensors = self.tensors_of(size, whole)
        for name, tensor in whole.items():
            if name.startswith("projection."):
                tensors[name] = tensor[:, : size.embed_dim] if tensor.ndim == 2 else tensor
        named = {f"network.{name}": tensor for name, tensor in tensors.items()}
        summary, patches, logits = functional_call(self.prepare(size), named, (inputs, real), tie_weights=False)
        return Features(summary, patches), logits

    def logits(self, size: Architecture, inputs: Tensor) -> Tensor:
        """See :class:`SlicedNetwork`."""
        real = inputs[:, 1].bool() if size.reads_text else None
        return self.outputs(size, inputs, real)[1]

    def prepare(self, size: Architecture) -> nn.Module:
        """A slice with its projection, without weights; it is built once."""
        projection: Any = self.network.projection
        widths = (projection.summary.out_features, projection.patches.out_features)
        weight = projection.summary.weight
        form = self.compile_network, weight.device, weight.dtype
        return _slice(self.with_kinds(size), *widths, *form, self.pooling if size.reads_text else None)

    def evaluate_batch(self, batch: Batch, split: Literal["val", "test"]) -> None:
        """The average over the measured sizes: loss, and agreement of predictions or features."""
        real = self.real_tokens(batch)
        wanted, answers = self._teacher_of(batch).features_and_logits(batch.inputs, real)
        results = []
        for size in self.measured:
            features, logits = self.outputs(size, batch.inputs, real)
            losses, agreement = feature_losses(features, wanted, real)
            if self.architecture.num_classes:
                predicted, wanted_ones = (labeled_logits(part, batch.targets) for part in (logits, answers))
                agreement = agreement_with(predicted, wanted_ones)[1]
            results.append((losses, agreement))
            name = f"{split}/agreement_{size.depth}x{size.embed_dim}"
            self.log(name, agreement.mean(), on_step=False, on_epoch=True, sync_dist=True, batch_size=len(agreement))
        losses, agreement = (torch.stack(values).mean(0) for values in zip(*results, strict=True))
        self.log_agreement(split, losses, agreement)


class _Slice(nn.Module):
    """A smaller network with its projection, without weights, which come with each call."""

    def __init__(self, network: Any, size: Architecture, summary: int, patches: int, compiled: bool) -> None:
        super().__init__()
        self.network = network
        with building_on("meta"):
            self.network.projection = FeatureProjection(size.embed_dim, summary, patches)
        for block in size.blocks(network) if compiled else ():  # networks of all depths share compiled blocks
            block.compile()

    def forward(self, inputs: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Projected summary and patches, and logits."""
        features, logits = projected_features(self.network, inputs, real)
        return *features, logits


@lru_cache(maxsize=1024)
def _slice(
    size: Architecture,
    summary: int,
    patches: int,
    compiled: bool,
    device: torch.device,
    dtype: torch.dtype,
    pooling: Pooling | None,
) -> _Slice:
    network: Any = slice_network(size, device, dtype)
    if pooling is not None:
        network.pooling = pooling
    return _Slice(network, size, summary, patches, compiled)
