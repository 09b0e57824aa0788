"""A family of finished networks of all sizes for one task: the training."""

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from lgx.architectures import Architecture, full_name, name_of
from lgx.architectures.class_order import class_order, with_class_order
from lgx.components.optim import with_rate
from lgx.core.batch import Batch
from lgx.core.flops import flop_counter
from lgx.core.rows import Evaluation
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Front
from lgx.methods.nested import FAMILY
from lgx.methods.nested.equal_sizes import EqualSizes
from lgx.methods.nested.front import measured_front
from lgx.methods.nested.head import ends_with_linear, fit_head, fit_temperature
from lgx.methods.nested.sizes import size_names, slice_text
from lgx.methods.nested.slicing import slice_network
from lgx.methods.several_networks import SeveralNetworks

_HEAD_RATE = 3.0
"""Factor of the learning rate of a new head; ours: of 1, 3 and 10 the best in validation
on Flowers and GTSRB. For other kinds of tasks it was not compared."""


class Family(SeveralNetworks, EqualSizes):
    """Train one network whose slices are finished networks of every smaller size for the task.

    The slices start from the ancestor's weights; the head is new, unless the ancestor's head is for the task's classes.
    A slice of l layers has the first l - 1 layers and the last one. So the head reads the same layer in all sizes, and
    a deeper slice has the same first layers.
    Each update trains one size on a batch, from labels alone. The sizes are the listed ones, and the whole network,
    which results call ``ancestor``. All of them get the same compute, and so do random sizes between the smallest
    listed values and the whole network (:class:`~lgx.methods.nested.shares.EqualCompute`). See
    :class:`~lgx.methods.nested.sliced_network.SlicedNetwork` for the slices, and
    :class:`~lgx.methods.nested.method.Nested` for the papers.

    That one network is trained at several sizes, one after the other, is of Yu et al., "Slimmable Neural Networks",
    ICLR 2019, and Cai et al., "Once-for-All", ICLR 2020, whose steps sum the gradients of several sizes. Equal compute
    for every size is ours. In-place distillation (Yu & Huang, "Universally Slimmable Networks", ICCV 2019) is left out:
    a largest slice that has just been cut from its ancestor teaches its mistakes.

    When training ends, the head is fitted to the features of training examples as they are evaluated
    (:func:`~lgx.methods.nested.head.fit_head`), and its temperature to validation examples
    (:func:`~lgx.methods.nested.head.fit_temperature`). Then about forty sizes are measured on the validation examples
    (the front). ``lgx export FAMILY --params 1.5M`` chooses from the front in the learngene file.

    Args:
        ancestor: The pretrained network: a folder, a run, or any other source.
        kwargs: Arguments of ``Distill`` and of every method, without those of its teacher and its start.
    """

    spec = FAMILY
    lists_shallow = True

    def __init__(self, ancestor: str, **kwargs: Any) -> None:
        super().__init__(guidance="logits", ancestor=ancestor, **kwargs)

    def check_task(self, task: Task) -> None:
        """Refuse a task without labels, and wrong sizes.

        Raises:
            UserError: If its examples have no labels or do not suit the network, or a size is no slice.
        """
        if not task.is_labeled:
            raise UserError("model Family: needs labels; to train starts without labels, give --model Nested")
        super().check_task(task)
        _ = self.listed

    def teacher_request(self) -> None:
        """None: the loss has only labels."""

    @cached_property
    def measured(self) -> list[Architecture]:
        """The trained sizes: the listed ones, then the whole network."""
        return list(dict.fromkeys([*self.listed, self.architecture]))

    def measure(self, sizes: Sequence[Architecture]) -> Front | None:
        """See :class:`~lgx.methods.nested.equal_sizes.EqualSizes`: with the metric of the task."""
        return measured_front(self, sizes)

    @property
    def finishes(self) -> bool:
        """See :class:`~lgx.methods.base.Method`: if the head is linear and reads one vector."""
        return ends_with_linear(self.architecture)

    def finish(self) -> None:
        """See :class:`~lgx.methods.base.Method`: fit the head, then its temperature."""
        with flop_counter() as counter:
            fit_head(self)
            fit_temperature(self)
        self.start_flops += counter.get_total_flops()

    # -- network --------------------------------------------------------------------------------------------------

    @cached_property
    def keeps_head(self) -> bool:
        """Whether the ancestor's head is for the task's classes."""
        task = cast(Task, self.task)
        source = self.source
        ancestor = source.require_architecture("model.ancestor")
        is_same = not source.label_names or not task.class_names or {*source.label_names} == {*task.class_names}
        return source.has_head and is_same and (ancestor.num_classes, ancestor.kind) == (task.num_classes, task.kind)

    def trained_groups(self) -> list[dict[str, Any]]:
        """See :class:`~lgx.methods.base.Method`; a new head has three times the learning rate."""
        heads = self.architecture.head_prefixes
        head = {p for name, p in self.parameters_by_name.items() if name.startswith(heads) and not self.keeps_head}
        return with_rate(super().trained_groups(), head, _HEAD_RATE)

    def start_tensors(self, tensors: Mapping[str, Tensor], ancestor: Architecture) -> Mapping[str, Tensor]:
        """See :class:`SlicedNetwork`: with the ancestor's head in the task's order of classes, or without a head."""
        if self.keeps_head:
            task = cast(Task, self.task)
            order = class_order(self.source.label_names, task.class_names, f"ancestor {self.source.name}")
            return with_class_order(tensors, ancestor, order)
        self.print(f"head       new, for {self.architecture.outputs}")
        return {name: tensor for name, tensor in tensors.items() if not name.startswith(ancestor.head_prefixes)}

    def prepare(self, size: Architecture) -> nn.Module:
        """See :class:`SlicedNetwork`."""
        weight = next(self.network.parameters())
        return _sized_network(self.with_kinds(size), self.drop_rate, self.compile_network, weight.device, weight.dtype)

    def logits(self, size: Architecture, inputs: Tensor) -> Tensor:
        """See :class:`SlicedNetwork`."""
        network = self.prepare(size).train(self.training)
        tensors = self.tensors_of(size, self.parameters_by_name)
        return cast(Tensor, functional_call(network, tensors, (inputs,), tie_weights=False))

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Loss of the update's size with the labels."""
        (size,) = self.drawn or self.draw(0)
        return {"loss": self.label_loss(self.logits(size, batch.inputs), batch.targets)}

    # -- evaluation -----------------------------------------------------------------------------------------------

    @property
    def measured_names(self) -> list[str]:
        """The names of the listed sizes and of the whole network."""
        return [name_of(size) for size in self.measured]

    def measured_logits(self, index: int, inputs: Tensor) -> Tensor:
        """Logits of one of them."""
        return self.logits(self.measured[index], inputs)

    def evaluations(self, split: str) -> list[Evaluation]:
        """Every listed size under its own tags."""
        task = self.task.name if self.task else ""
        short = size_names(self.measured, self.architecture)
        trained = self._trained or [slice_text(size) for size in self.measured]
        return [
            Evaluation(
                task, full_name(size), f"{split}/{name_of(size)}", name, f"_{index}", slice_text(size) in trained
            )
            for index, (size, name) in enumerate(zip(self.measured, short, strict=True))
        ]

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Logits of the one listed size, (B, K), float32.

        Raises:
            UserError: If several sizes are listed.
        """
        if len(self.listed) > 1:
            raise UserError("model.sizes: predictions need exactly one size; list it, e.g. [depth=6]")
        return super().predict_step(batch, batch_idx)


@lru_cache(maxsize=1024)
def _sized_network(
    size: Architecture, drop_rate: float, compiled: bool, device: torch.device, dtype: torch.dtype
) -> nn.Module:
    """A network without weights, which come with each call."""
    network: Any = slice_network(size, device, dtype, drop_rate)
    for block in size.blocks(network) if compiled else ():  # networks of all depths share compiled blocks
        block.compile()
    return cast(nn.Module, network)
