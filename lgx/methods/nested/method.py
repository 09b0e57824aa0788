"""Nested learngenes: the training."""

import random
from collections.abc import Mapping
from functools import cached_property, lru_cache
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from lgx.architectures import Architecture, ViTArchitecture, vit_only
from lgx.architectures.meta_device import building_on
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.components.features import FeatureProjection, Features, feature_losses
from lgx.components.losses import distillation_loss
from lgx.components.metrics import agreement_with
from lgx.components.updates import mean_of_examples
from lgx.core.batch import Batch
from lgx.core.seed import run_seed
from lgx.core.task import AGREEMENT, Normalization
from lgx.errors import UserError
from lgx.initialization import Sizes
from lgx.methods.base import Method
from lgx.methods.checks import check_option
from lgx.methods.distillation.guidance import projected_features, without_projection
from lgx.methods.distillation.method import Distill
from lgx.methods.nested import SPEC
from lgx.methods.nested.planned_step import PlannedSlices
from lgx.methods.nested.slicing import ordered, skeleton, sliced
from lgx.methods.weight_subcloning.importance import on_images
from lgx.methods.weight_subcloning.initializer import layers_by_change

_SAMPLE = 64
"""Training images on which importance is measured."""


class Nested(Distill):
    """Train an ancestor's weights so that its slices of all depths and widths imitate it.

    Residual dimensions, heads and neurons are put in the order of their importance
    (:func:`~lgx.methods.weight_subcloning.importance.on_images`), which changes nothing of what the network computes.
    A smaller network is a slice: the first of each, without the layers whose absence changes the ancestor least
    (:func:`~lgx.methods.weight_subcloning.initializer.layers_by_change`). Each step draws sizes and trains their slices
    on one batch; the gradients of all meet in the shared weights. The loss of a slice is the distance of its
    features from the ancestor's, through one learned projection that is sliced, too
    (:func:`~lgx.components.features.feature_losses`), plus the cross-entropy with the ancestor's predictions where the
    ancestor has a head. With labels, ``alpha`` is the share of both against the cross-entropy with the labels.

    That a network holds all smaller ones, and that a step trains the smallest and random ones, is of Cai et al.,
    "Once-for-All", ICLR 2020, and Yu et al., "Universally Slimmable Networks", ICCV 2019 (their sandwich rule also
    draws the largest); MatFormer (Kudugunta et al., NeurIPS 2024) and Scala (Zhang et al., NeurIPS 2024) train ViTs so.
    That the order and the weights are a pretrained ancestor's, that depth and width vary together, that no labels are
    needed, and that slices start a fine-tuning, is ours. One set of weights for all sizes makes large networks forget;
    so the larger a slice, the nearer its weights stay to the ancestor's, which the learngene keeps beside the trained
    ones (:func:`~lgx.methods.nested.slicing.trained_share`). A descendant of the ancestor's own size is the ancestor.

    Args:
        draws: Random sizes in each step, beside the smallest one.
        least_depth: Layers of the smallest size.
        least_ratio: Smallest MLP, as a share of the ancestor's.
        kwargs: Arguments of ``Distill`` and of every method. ``arch`` is the ancestor's; ``start`` and
            ``guidance`` cannot be given.
    """

    spec = SPEC
    plain_network = False

    def __init__(self, draws: int = 2, least_depth: int = 3, least_ratio: float = 0.5, **kwargs: Any) -> None:
        super().__init__(guidance="features", start="random", **kwargs)
        if self.ancestor is None:
            raise UserError("model.ancestor: a nested learngene is made from an ancestor; name one")
        check_option("draws", draws, draws >= 0, "a number of sizes, at least 0")
        check_option("least_ratio", least_ratio, 0 < least_ratio <= 1, "a share in (0, 1]")
        depth = self.parsed_architecture.depth
        check_option("least_depth", least_depth, 1 <= least_depth <= depth, f"a number of layers, 1 to {depth}")
        self.draws, self.least_depth, self.least_ratio = draws, least_depth, least_ratio
        self.drawn: list[ViTArchitecture] = []

    # -- sizes ----------------------------------------------------------------------------------------------------

    @cached_property
    def own_architecture(self) -> Architecture:
        """The architecture in ``arch`` with the task's classes; without labels with those of the ancestor's head."""
        if self.has_labels:
            return self.parsed_architecture
        try:
            source = load_pretrained(self.ancestor or "")
        except UserError:
            if self.assumed is None:
                raise
            self.assumed.append(
                f"model.ancestor: {self.ancestor} cannot be read yet; the plan takes it to have no head."
            )
            return self.parsed_architecture
        return self.parsed_architecture.replace(num_classes=source.model.num_classes if source.has_head else 0)

    @cached_property
    def architecture(self) -> ViTArchitecture:
        """The whole network."""
        return vit_only(self.own_architecture, f"model {type(self).__name__}")

    @property
    def varying_graph(self) -> bool:
        """Slices of few layers leave the others without a gradient."""
        return True

    def size(self, depth: int, width: int, share: float) -> ViTArchitecture:
        """A size; ``share`` is that of the ancestor's MLP ratio, rounded to one that exists."""
        sizes = Sizes.within(self.architecture)
        wanted = share * self.architecture.mlp_ratio
        return sizes.network(depth, width, min(sizes.ratios(width), key=lambda ratio: abs(ratio - wanted)))

    @cached_property
    def measured(self) -> list[ViTArchitecture]:
        """Sizes that validation measures: half of the layers, a quarter, half at two thirds of the width, and small."""
        depth, width = self.architecture.depth, self.architecture.embed_dim
        head = width // self.architecture.num_heads
        half, quarter, narrower = max(1, depth // 2), max(1, depth // 4), max(head, 2 * width // 3 // head * head)
        sizes = (half, width), (quarter, width), (half, narrower), (quarter, head)
        return list(dict.fromkeys(self.size(*each, share=1.0) for each in sizes))

    def draw(self, *parts: int) -> list[ViTArchitecture]:
        """The sizes of one step, the same on all processes: the smallest, and random ones.

        Args:
            parts: Numbers that name the step: seed, epoch and batch.
        """
        generator, widths = random.Random(repr(parts)), Sizes.within(self.architecture).widths()
        shares = [share for share in (0.25, 0.5, 0.75, 1.0) if share >= self.least_ratio]
        found = [self.size(self.least_depth, widths[0], self.least_ratio)]
        for _ in range(self.draws):
            depth = generator.randint(self.least_depth, self.architecture.depth)
            found.append(self.size(depth, generator.choice(widths), generator.choice(shares)))
        return found

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Draw the sizes of the step."""
        super().on_train_batch_start(batch, batch_idx)
        self.drawn = self.draw(run_seed(), self.current_epoch, batch_idx)

    # -- network --------------------------------------------------------------------------------------------------

    def start_normalization(self) -> tuple[Normalization | None, str] | None:
        """The ancestor's, whose weights are the start."""
        if hasattr(self, "network"):
            return None
        return Normalization(self.source.mean, self.source.std), "the ancestor"

    def build_network(self) -> nn.Module:
        """The ordered ancestor, and a projection that undoes the order."""
        network: Any = super().build_network()
        start = self.architecture.replace(num_classes=0) if self.has_labels else self.architecture
        network.whole = start.build().requires_grad_(False)
        network.register_buffer("layer_order", torch.arange(self.architecture.depth).float())  # averages cut integers
        if self._trainer is None or self.skips_start:
            return cast(nn.Module, network)
        known = self.source.require_vit("model.ancestor")
        if known.replace(num_classes=0, kind=self.architecture.kind) != self.architecture.replace(num_classes=0):
            raise UserError(f"model.arch: a nested learngene has the ancestor's own sizes; write {known.spec()}")
        data = self.data_module()
        batches = [data.on_after_batch_transfer(batch, 0) for batch in data.reference_dataloader(_SAMPLE)]
        images = torch.cat([batch.inputs for batch in batches])
        importance = on_images(self.source.model.eval(), known, images)
        tensors, order = ordered(self.source.tensors, known, importance)
        own = {name: tensor.shape for name, tensor in network.state_dict().items()}
        network.load_state_dict({k: v for k, v in tensors.items() if own[k] == v.shape}, strict=False)
        network.whole.load_state_dict(tensors, strict=False)
        network.layer_order.copy_(torch.tensor(layers_by_change(self.source.model, images)))
        for layer in (network.projection.summary, network.projection.patches):
            if layer.in_features == layer.out_features:
                layer.weight.data.copy_(torch.eye(len(order))[:, order])
        self.print(f"ordered    by activation on {len(images)} training images")
        del self.source
        return cast(nn.Module, network)

    def outputs(self, size: ViTArchitecture, images: Tensor) -> tuple[Features, Tensor]:
        """What a slice computes: in evaluation the network that is cut, in training with its share of trained weights.

        Args:
            size: Its architecture.
            images: (B, C, H, W).

        Returns:
            Its features, projected to the ancestor's widths, and its logits, (B, K).
        """
        own = dict(self.network.named_parameters())
        tensors = sliced(own, self.architecture, size, self.layer_order, training=self.training)
        for name, tensor in own.items():
            if name.startswith("projection."):
                tensors[name] = tensor[:, : size.embed_dim] if tensor.ndim == 2 else tensor
        named = {f"network.{name}": tensor for name, tensor in tensors.items()}
        summary, patches, logits = functional_call(self.prepare(size), named, (images,))
        return Features(summary, patches), logits

    @cached_property
    def layer_order(self) -> tuple[int, ...]:
        """The layers, those that small slices have first."""
        order = cast(Tensor, self.network.layer_order)
        return tuple(order.round().int().tolist())

    def prepare(self, size: ViTArchitecture) -> nn.Module:
        """A slice with its projection, without weights; it is built once."""
        projection: Any = self.network.projection
        widths, weight = (projection.summary.out_features, projection.patches.out_features), projection.summary.weight
        return _slice(size, *widths, self.compile_network, weight.device, weight.dtype)

    def planned_step(self) -> PlannedSlices:
        """A step of mean cost."""
        return PlannedSlices(self)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (B, K) of the first of the sizes that are measured, for images (B, C, H, W)."""
        return self.outputs(self.measured[0], inputs)[1]

    # -- losses ---------------------------------------------------------------------------------------------------

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss``, the mean over the sizes of the step, and its parts."""
        wanted, answers = self._teacher_of(batch).features_and_logits(batch.inputs)
        sizes = self.drawn or self.draw(0)
        parts = [self._losses(*self.outputs(size, batch.inputs), wanted, answers, batch) for size in sizes]
        return {name: torch.stack([part[name] for part in parts]).mean() for name in parts[0]}

    def _losses(
        self, features: Features, logits: Tensor, wanted: Features, answers: Tensor, batch: Batch
    ) -> dict[str, Tensor]:
        distances, _ = feature_losses(features, wanted)
        distilled = mean_of_examples(distances, batch.targets)
        if self.has_labels:
            labels = self.label_loss(logits, batch.targets)
            loss = (1 - self.alpha) * labels + self.alpha * distilled
            return {"loss": loss, "loss_labels": labels, "loss_features": distilled}
        if not self.architecture.num_classes:
            return {"loss": distilled}
        predictions = distillation_loss(logits, answers, self.temperature)
        return {"loss": distilled + predictions, "loss_features": distilled, "loss_distillation": predictions}

    def evaluate_batch(self, batch: Batch, split: Literal["val", "test"]) -> None:
        """Without labels, the mean over the measured sizes: loss, and agreement of predictions or features."""
        if self.has_labels:
            Method.evaluate_batch(self, batch, split)
            return
        wanted, answers = self._teacher_of(batch).features_and_logits(batch.inputs)
        found = []
        for size in self.measured:
            features, logits = self.outputs(size, batch.inputs)
            losses, agreement = feature_losses(features, wanted)
            if self.architecture.num_classes:
                agreement = agreement_with(logits, answers)[1]
            found.append((losses, agreement))
            name = f"{split}/agreement_{size.depth}x{size.embed_dim}"
            self.log(name, agreement.mean(), on_step=False, on_epoch=True, sync_dist=True, batch_size=len(agreement))
        losses, agreement = (torch.stack(values).mean(0) for values in zip(*found, strict=True))
        metrics = self.metrics_of(split)
        for name, value in (("loss", losses), (AGREEMENT, agreement), ("n", torch.tensor(len(losses)))):
            metrics[name].update(value)
            self.log(f"{split}/{name}", metrics[name], prog_bar=name == AGREEMENT, on_step=False, on_epoch=True)

    # -- what the run leaves --------------------------------------------------------------------------------------

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The trained weights, and beside them those of the ancestor in the same order."""
        own = {name: tensor for name, tensor in without_projection(state).items() if name != "layer_order"}
        selection, ancestor = {"layers": list(self.layer_order)}, self.ancestor or ""
        return Learngene(self.method, self.architecture, own, ancestor, selection=selection, content="slices")


class _Slice(nn.Module):
    """A smaller network with its projection, without weights, which come with each call."""

    def __init__(self, network: Any, size: ViTArchitecture, summary: int, patches: int, compiled: bool) -> None:
        super().__init__()
        self.network = network
        with building_on("meta"):
            self.network.projection = FeatureProjection(size.embed_dim, summary, patches)
        for block in self.network.blocks if compiled else ():  # networks of all depths share compiled blocks
            block.compile()

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Projected summary and patches, and logits."""
        features, tokens = projected_features(self.network, images)
        return *features, self.network.forward_head(tokens)


@lru_cache(maxsize=1024)
def _slice(
    size: ViTArchitecture, summary: int, patches: int, compiled: bool, device: torch.device, dtype: torch.dtype
) -> _Slice:
    return _Slice(skeleton(size, device, dtype), size, summary, patches, compiled)
