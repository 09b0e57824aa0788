"""One training step of a hypernetwork as a plan counts it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily

from lgx.architectures import Architecture
from lgx.hypernet import Hypernet
from lgx.hypernet.functional_forward import skeleton
from lgx.hypernet.low_rank_tensor import LowRankTensor
from lgx.methods.planned_step import PlannedStep


class PlannedMetaBatch(PlannedStep):
    """Some architectures of the set, predicted with real weights: the graphs decide the hypernetwork's own work.

    Args:
        method: A method of hypernetworks.
    """

    needs_memory = True
    notes = ("FLOPs are means over the architecture set, memory is that of its largest architecture.",)

    def build(self) -> nn.Module:
        """The hypernetwork with real weights; the descendants that it predicts may have tensors without memory."""
        network = RealPredictions(self.method.config)
        for parameter, built in zip(network.parameters(), super().build().parameters(), strict=True):
            parameter.requires_grad_(built.requires_grad)
        return network

    @property
    def architectures(self) -> Sequence[Architecture]:
        """The architecture set."""
        architectures: Sequence[Architecture] = self.method.set
        return architectures

    @contextmanager
    def restricted_to(self, architecture: Architecture) -> Iterator[None]:
        """Inside the block the set consists of this architecture, whose skeleton is built before and cached."""
        whole = self.method.set
        self.method.set = [architecture]
        with unset_fake_temporarily():  # the skeleton cannot be built on tensors without memory
            skeleton(architecture.replace(num_classes=1))
        try:
            yield
        finally:
            self.method.set = whole

    def stand_ins(self) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """The last prediction, and the tensors without memory that stand for it."""
        network = self.method.network
        return (network.predicted, network.stand_ins) if isinstance(network, RealPredictions) else ((), ())


class RealPredictions(Hypernet):
    """A hypernetwork that predicts with real tensors where others are without memory.

    Attributes:
        predicted: Storage of the last prediction.
        stand_ins: The tensors without memory that stand for them.
    """

    predicted: Sequence[Tensor] = ()
    stand_ins: Sequence[Tensor] = ()

    def predict_graphs(self, *args: Any, **kwargs: Any) -> list[dict[str, Tensor]]:
        """See :class:`~lgx.hypernet.Hypernet`."""
        mode: Any
        with unset_fake_temporarily() as mode:
            predicted = super().predict_graphs(*args, **kwargs)
            tensors = [tensor for parameters in predicted for tensor in parameters.values()]
            parts = [(t.a, t.b) if isinstance(t, LowRankTensor) else (t,) for t in tensors]
            self.predicted = [part for pair in parts for part in pair]
            self.stand_ins = [mode.from_tensor(part) for part in self.predicted] if mode else []
        return predicted
