"""One training step of a nested learngene as a plan counts it."""

from statistics import fmean
from typing import Any

from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily

from lgx.architectures.cost import cost_of
from lgx.core.batch import Batch
from lgx.methods.nested.slicing import sliced
from lgx.methods.planned_step import PlannedStep

_STEPS = 200


class PlannedSlices(PlannedStep):
    """A step with the largest slices; its FLOPs are reduced to those of an average step."""

    def __init__(self, method: Any) -> None:
        super().__init__(method)
        self.notes = ("FLOPs are those of an average step. Memory is that of a step with the largest slices.",)

    def build(self) -> nn.Module:
        """The network; the sizes of the step are drawn before operations are counted."""
        method: Any = self.method
        with unset_fake_temporarily():
            steps = [method.draw(step) for step in range(_STEPS)]
            costs = [[cost_of(size).macs for size in sizes] for sizes in steps]
        largest = max(range(_STEPS), key=lambda k: sum(costs[k]))
        method.drawn, self.flops_share = steps[largest], fmean(map(sum, costs)) / sum(costs[largest])
        method.layer_order = tuple(range(method.architecture.depth))
        return super().build()

    def loss(self, batch: Batch) -> Tensor:
        """The loss of the slices, which are built before: no network can be built on tensors without memory."""
        method: Any = self.method
        with unset_fake_temporarily():
            for size in method.drawn:
                method.prepare(size)
                sliced({}, method.architecture, size, method.layer_order)  # its plan builds a network, too
        return super().loss(batch)
