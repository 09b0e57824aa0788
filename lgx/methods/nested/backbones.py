"""Backbones of every size that share their ancestor's space: the training, without labels."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lgx.architectures import Architecture
from lgx.architectures.cost import cost_of
from lgx.artifacts.learngene import MAP, Learngene
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.components.features import FeatureProjection, Features, feature_losses
from lgx.core.batch import Batch
from lgx.core.flops import flop_counter
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Front
from lgx.initialization.sizing import enough
from lgx.methods.distillation.guidance import PROJECTION
from lgx.methods.nested import BACKBONES
from lgx.methods.nested.equal_sizes import EqualSizes
from lgx.methods.nested.feature_slices import FeatureSlices
from lgx.methods.nested.kept_features import MOST_BYTES, KeptFeatures
from lgx.methods.nested.neighbors import NEIGHBOR, agreements
from lgx.methods.nested.sizes import slice_text

_WORSE = 0.02
"""If a cut without training is better by so much, the run says so."""


class Backbones(EqualSizes, FeatureSlices):
    """Train one network whose slices are encoders of every smaller size, in the space of their ancestor's vectors.

    Nothing is read but images or texts. Each update trains one size on a batch: its features imitate those of the
    frozen ancestor (:func:`~lgx.components.features.feature_losses`). These are the vector that users read, i.e. the
    class token, the pooled patches or the pooled tokens of a text, and all patches or tokens. The ancestor's features
    of texts are computed once (:class:`~lgx.methods.nested.kept_features.KeptFeatures`). A linear map brings the
    features into the ancestor's space. All sizes share the map: a narrower one has its first columns. It is kept, so
    that an index of the ancestor's vectors answers questions of a small encoder.

    The whole network is the ancestor itself, and is not trained. See
    :class:`~lgx.methods.nested.equal_sizes.EqualSizes` for the sizes, and :class:`~lgx.methods.nested.method.Nested`
    for the papers on slices. After training, about forty sizes are measured on held-out examples: does each find the
    ancestor's nearest neighbors (:func:`~lgx.methods.nested.neighbors.agreements`)? ``lgx export RUN --params 5M``
    chooses by that.

    Args:
        kwargs: Arguments of ``Distill`` and of every method, without those of its losses and its start.

    Attributes:
        kept: The ancestor's features of all training texts; None where every update computes them.
        cut: Scores of the measured sizes of whole layers, if they are cut from the ancestor and not trained.
    """

    spec = BACKBONES

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(guidance="features", **kwargs)
        self.has_labels, self.evaluates_with_teacher = False, True
        self.kept: KeptFeatures | None = None
        self.cut: dict[Architecture, float] = {}

    def check_task(self, task: Task) -> None:
        """Refuse a task with labels, and sizes that are not smaller than the ancestor."""
        super().check_task(task)
        if self.architecture in self.listed:
            raise UserError("model.sizes: lists the ancestor's own size, which needs no training; leave it out")

    def check_sizes(self, source: PretrainedNetwork) -> Architecture:
        """See :class:`SlicedNetwork`; also refuse an ancestor without a pooled vector."""
        ancestor = super().check_sizes(source)
        if ancestor.kind == "segmentation":
            raise UserError(
                f"model.ancestor: {source.name} classifies pixels and has no vector of an image; give a classifier or "
                "a network without a head"
            )
        return ancestor

    @cached_property
    def task_architecture(self) -> Architecture:
        """The ancestor's architecture without its head."""
        return self.parsed_architecture.replace(num_classes=0)

    @cached_property
    def measured(self) -> list[Architecture]:
        """The listed sizes."""
        return self.listed

    @cached_property
    def grid(self) -> list[Architecture]:
        """Sizes between the smallest listed values and the whole network, without that."""
        return [size for size in super().grid if size != self.architecture] or self.listed

    def ranked_layers(self, ancestor: Architecture, inputs: Tensor) -> list[int]:
        """See :class:`SlicedNetwork`: the last layer, the first one, then the middle of the largest gap between them.

        So the layers of every slice are spaced as evenly as a sequence allows. Untrained slices of whole layers are
        nearer to the ancestor so than with the first layers and the last one. A slice of one layer has the last one:
        deeper slices and that of one layer then shared more of MiniLM's neighbors than with the first one.
        """
        order = [ancestor.depth - 1, 0][: ancestor.depth]
        while len(order) < ancestor.depth:
            start, end = max(pairwise(sorted(order)), key=lambda gap: gap[1] - gap[0])
            order.append((start + end) // 2)
        return order

    def build_network(self) -> nn.Module:
        """See :class:`SlicedNetwork`; the embeddings of tokens are not trained.

        Few tokens of a vocabulary are frequent in a user's texts: the others would only decay.
        """
        network = super().build_network()
        for module in network.modules():
            if isinstance(module, nn.Embedding):
                module.requires_grad_(False)
        return network

    # -- the ancestor -------------------------------------------------------------------------------------------------

    @cached_property
    def asks_ancestor(self) -> bool:
        """See :class:`EqualSizes`: not of texts, unless the features of an epoch may need more than 2 GiB."""
        task = self.task
        if task is None or not task.reads_text:
            return True
        data = self.data_module()
        texts = data.train_dataloader().epoch_length * data.batch_size * self.trainer.world_size
        return bool(4 * texts * task.max_len * self.architecture.embed_dim > MOST_BYTES)

    @property
    def fixed_cost(self) -> float:
        """See :class:`EqualSizes`; where the ancestor is not asked, as much as two passes of the smallest size.

        Texts are short, so that the batch, the losses and the optimizer take a good part of a small update: with MiniLM
        on a CPU an update of 3 layers of full width took 3 to 4 times that of the smallest default size, not 8 times.
        """
        return super().fixed_cost if self.asks_ancestor else 2 * min(cost_of(size).macs for size in self.listed)

    def on_train_start(self) -> None:
        """See :class:`EqualSizes`; also compute the features of all training texts, in one order, on every process."""
        super().on_train_start()
        if self.asks_ancestor:
            return
        data = self.data_module()
        texts = data.reference_dataloader(data.task.num_train, is_shared=False)
        batches = (batch._replace(inputs=batch.inputs.to(self.device)) for batch in texts)
        with flop_counter() as counter:
            self.kept = KeptFeatures((batch.inputs, self.ancestor_features(batch)) for batch in batches)
        self.start_flops += counter.get_total_flops()
        self.print(f"ancestor   features of {len(self.kept):,} different training texts, computed once")

    # -- losses and scores ----------------------------------------------------------------------------------------

    def ancestor_features(self, batch: Batch) -> Features:
        """The ancestor's features of a batch."""
        return self._teacher_of(batch).features_and_logits(batch.inputs, self.real_tokens(batch))[0]

    def features_of(self, size: Architecture, batch: Batch, whole: Mapping[str, Tensor] | None = None) -> Features:
        """A slice's features of a batch in the ancestor's space; ``whole`` as in :meth:`outputs`."""
        return self.outputs(size, batch.inputs, self.real_tokens(batch), whole)[0]

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Distance of the features of the update's size from the ancestor's."""
        (size,) = self.drawn or self.draw(0)
        features = self.features_of(size, batch)
        losses, _ = feature_losses(features, self.wanted(batch, features), self.real_tokens(batch))
        return {"loss": self.mean_loss(losses, batch)}

    def wanted(self, batch: Batch, features: Features) -> Features:
        """The ancestor's features of a batch; zeros like a slice's where a step is planned, not trained."""
        if self.asks_ancestor:
            return self.ancestor_features(batch)
        if self.kept is None:
            return Features(*map(torch.zeros_like, features))
        return self.kept.of(batch.inputs)

    def measure(self, sizes: Sequence[Architecture]) -> Front | None:
        """See :class:`EqualSizes`: neighbors that are the ancestor's."""
        ordered = sorted(dict.fromkeys(sizes), key=lambda size: cost_of(size).parameters)
        scores = agreements(self, ordered)
        self.cut = self._scores_of_cuts(scores)
        names = next(iter(scores.values()), {}).keys() - {NEIGHBOR, "n"}
        self.columns = {name: {size: each[name] for size, each in scores.items()} for name in sorted(names)}
        self.columns[f"{NEIGHBOR}_cut"] = self.cut
        counts = [int(each["n"]) for each in scores.values()]
        return Front(NEIGHBOR, {size: each[NEIGHBOR] for size, each in scores.items()}, counts[0]) if counts else None

    def _scores_of_cuts(self, sizes: Iterable[Architecture]) -> dict[Architecture, float]:
        """Scores of the sizes of whole layers with the ancestor's parameters, and with maps that change nothing."""
        whole = self.architecture
        whole_layers = [size for size in sizes if size.replace(depth=whole.depth) == whole]
        assert self.teacher is not None
        if not whole_layers or self.teacher.widths != (whole.embed_dim, whole.embed_dim):
            return {}
        unchanged = FeatureProjection(whole.embed_dim, *self.teacher.widths)
        maps = {f"{PROJECTION}{name}": parameter for name, parameter in unchanged.named_parameters()}
        ancestor = dict(self.teacher.model.named_parameters()) | maps
        trained = self.parameters_by_name.items()
        untrained = {name: ancestor.get(name, parameter).to(parameter) for name, parameter in trained}
        return {size: each[NEIGHBOR] for size, each in agreements(self, whole_layers, untrained).items()}

    # -- what the run leaves --------------------------------------------------------------------------------------

    def conclusions(self) -> list[str]:
        """See :class:`~lgx.methods.base.Method`: how to cut the sizes that training has made worse by two points."""
        trained = self.front.scores if self.front else {}
        worse = [size for size, score in self.cut.items() if score > trained[size] + _WORSE]
        if not worse:
            return []
        size = max(worse, key=lambda size: size.depth)
        layers = " ".join(map(str, sorted(self.layer_order[: size.depth])))
        depths = ", ".join(str(each.depth) for each in worse)
        return [
            f"the run has made depth {depths} worse: {slice_text(size)} has {trained[size]:.1%}, and "
            f"{self.cut[size]:.1%} if it is cut from the ancestor: lgx init --source {shlex.quote(str(self.ancestor))} "
            f"--method layer_choice --choice '{layers}' --arch depth={size.depth} --out cut"
        ]

    def next_command(self, folder: Path) -> str:
        """See :class:`~lgx.methods.base.Method`: export the best encoder of half of the ancestor's parameters."""
        half = max(cost_of(self.architecture).parameters // 2, cost_of(self.measured[0]).parameters)
        return f"lgx export {shlex.quote(str(folder))} --params {enough('params', half)} --out small"

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The whole network, the map of vectors, the order of the layers, and the front."""
        kept = {
            name: tensor for name, tensor in state.items() if name.startswith(MAP) or not name.startswith(PROJECTION)
        }
        learngene = super().learngene(kept)
        assert learngene.selection is not None
        if self.architecture.reads_text:
            learngene.selection["pooling"] = self.pooling
        return learngene
