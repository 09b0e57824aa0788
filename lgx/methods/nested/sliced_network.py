"""What the training of nested learngenes and of families shares: an ordered ancestor, and passes of its slices."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, cast

import torch
from torch import Tensor, nn

from lgx.architectures import Architecture
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.core.batch import Batch
from lgx.core.seed import run_seed
from lgx.core.task import Normalization
from lgx.errors import UserError
from lgx.methods.distillation.method import Distill, DistillGuidance
from lgx.methods.nested.slicing import ordered, sliced
from lgx.methods.weight_subcloning.importance import on_inputs
from lgx.methods.weight_subcloning.initializer import layers_by_change

_SAMPLE = 64
"""Training images on which importance is measured."""
ORDER = "layer_order"


class SlicedNetwork(Distill):
    """Trains an ancestor's weights through slices of several sizes in each step.

    Residual dimensions, heads and neurons are put in the order of their importance
    (:func:`~lgx.methods.weight_subcloning.importance.on_inputs`), which changes nothing of what the network computes.
    A smaller network is a slice: the first of each, and some of the layers (:meth:`ranked_layers`): by default those
    whose absence changes the ancestor most
    (:func:`~lgx.methods.weight_subcloning.initializer.layers_by_change`).

    Args:
        guidance: What the slices learn from the ancestor.
        kwargs: Arguments of ``Distill`` and of every method, without ``start``.
    """

    plain_network = False
    arch_option = "ancestor"

    def __init__(self, guidance: DistillGuidance, **kwargs: Any) -> None:
        super().__init__(guidance=guidance, start="random", **kwargs)
        if self.ancestor is None:
            raise UserError(f"model.ancestor: {type(self).__name__} trains slices of an ancestor; give model.ancestor")
        self._named: tuple[nn.Module | None, dict[str, Tensor]] = None, {}

    # -- sizes ----------------------------------------------------------------------------------------------------

    @property
    def varying_graph(self) -> bool:
        """Slices of few layers leave the others without a gradient."""
        return True

    @abstractmethod
    def draw(self, *parts: int) -> list[Architecture]:
        """The sizes of one step, the same on all processes.

        Args:
            parts: Numbers that name the step: seed, epoch and batch.
        """

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Draw the sizes of the step."""
        super().on_train_batch_start(batch, batch_idx)
        self.drawn = self.draw(*self.numbers_of_step(batch_idx))

    def numbers_of_step(self, batch_idx: int) -> tuple[int, ...]:
        """The numbers by which the sizes of a step are drawn: seed, epoch and batch."""
        return run_seed(), self.current_epoch, batch_idx

    # -- network --------------------------------------------------------------------------------------------------

    def start_normalization(self) -> tuple[Normalization | None, str] | None:
        """The ancestor's, whose weights are the start."""
        if hasattr(self, "network"):
            return None
        return Normalization(self.source.mean, self.source.std), "the ancestor"

    def build_network(self) -> nn.Module:
        """The ordered ancestor."""
        network = super().build_network()
        network.register_buffer(ORDER, torch.arange(self.architecture.depth).float())  # averages cut integers
        self.extend(network)
        if self._trainer is None or self.is_restored:
            return network
        ancestor = self.check_sizes(self.source)
        data = self.data_module()
        batches = [data.on_after_batch_transfer(batch, 0) for batch in data.reference_dataloader(_SAMPLE, False)]
        inputs = self.joined(batches)
        tensors, order = ordered(self.source.tensors, ancestor, on_inputs(self.source.model.eval(), ancestor, inputs))
        getattr(network, ORDER).copy_(torch.tensor(self.ranked_layers(ancestor, inputs)))
        self.begin(network, self.start_tensors(tensors, ancestor), order)
        examples = sum(len(batch.inputs) for batch in batches)
        what = "texts" if ancestor.reads_text else "images"
        self.print(f"ordered    dimensions, heads and neurons by activation on {examples} training {what}")
        del self.source
        return network

    def joined(self, batches: Sequence[Batch]) -> Tensor:
        """The images of batches, (B, C, H, W), or their texts, padded to the longest, (B, 3, N)."""
        longest = max(batch.inputs.shape[-1] for batch in batches)
        return torch.cat([nn.functional.pad(batch.inputs, (0, longest - batch.inputs.shape[-1])) for batch in batches])

    def check_sizes(self, source: PretrainedNetwork) -> Architecture:
        """The architecture of the ancestor.

        Raises:
            UserError: If it is none that lgx can describe, or ``arch`` differs from it.
        """
        ancestor = source.require_architecture("model.ancestor")
        self.check_ancestor(ancestor)
        return ancestor

    def ranked_layers(self, ancestor: Architecture, inputs: Tensor) -> list[int]:
        """The layers of the ancestor, those that small slices have first; ``inputs`` measure importance."""
        return layers_by_change(self.source.model, ancestor, inputs)

    def start_tensors(self, tensors: Mapping[str, Tensor], ancestor: Architecture) -> Mapping[str, Tensor]:
        """The parameters of the ordered ancestor that the network starts from; by default all."""
        return tensors

    def extend(self, network: nn.Module) -> None:
        """Add to the network what the method keeps beside the trained weights."""

    def begin(self, network: nn.Module, tensors: Mapping[str, Tensor], order: Tensor) -> None:
        """Load the ordered ancestor.

        Args:
            network: What :meth:`build_network` returns.
            tensors: Its parameters.
            order: Where each dimension of the residual stream was before, (D,).
        """
        shapes = {name: tensor.shape for name, tensor in network.state_dict().items()}
        network.load_state_dict({k: v for k, v in tensors.items() if shapes.get(k) == v.shape}, strict=False)

    @cached_property
    def layer_order(self) -> tuple[int, ...]:
        """The layers, those that small slices have first."""
        order = cast(Tensor, getattr(self.network, ORDER))
        return tuple(order.round().int().tolist())

    @property
    def parameters_by_name(self) -> dict[str, Tensor]:
        """The network's parameters."""
        if self._named[0] is not self.network:  # a walk through its modules takes as long as the pass of a small slice
            self._named = self.network, dict(self.network.named_parameters())
        return self._named[1]

    def tensors_of(self, size: Architecture, whole: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The slice's part of the network's parameters: views, as far as it is not narrower in several parts."""
        return sliced(whole, self.architecture, size, self.layer_order, training=self.training)

    def with_kinds(self, size: Architecture) -> Architecture:
        """A slice whose layers have the kinds of the ancestor's layers."""
        return size.with_layers(self.architecture, sorted(self.layer_order[: size.depth])) if size.reads_text else size

    @abstractmethod
    def prepare(self, size: Architecture) -> nn.Module:
        """A network of this size without weights; it is built once."""

    @abstractmethod
    def logits(self, size: Architecture, inputs: Tensor) -> Tensor:
        """Logits of a slice for images (B, C, H, W) or texts (B, 3, N)."""

    @property
    @abstractmethod
    def measured(self) -> list[Architecture]:
        """Sizes that validation measures."""

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of the first of the sizes that are measured, for images (B, C, H, W) or texts (B, 3, N)."""
        return self.logits(self.measured[0], inputs)
