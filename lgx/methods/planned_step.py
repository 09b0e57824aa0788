"""One training step as a plan counts it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

from torch import Tensor, nn

from lgx.architectures import Architecture
from lgx.artifacts.learngene import Learngene
from lgx.core.batch import Batch


class PlannedStep:
    """One training step of a method whose files may not exist yet.

    A plan builds the network on tensors without memory, runs :meth:`loss` on an empty batch, and counts operations and
    the tensors that the backward pass needs. The method's teacher is replaced by a stand-in. Only a method whose step
    is more than one forward and backward pass of its network derives a class of its own.

    Args:
        method: The method; from now on it needs no start, and assumes what missing files would say.

    Attributes:
        needs_memory: Whether the network must have real weights, because its own work depends on their values.
        notes: What the plan says about what is counted.
        flops_share: FLOPs of an average step, divided by those of the step that is counted.
    """

    needs_memory: bool = False
    notes: tuple[str, ...] = ()
    flops_share: float = 1.0

    def __init__(self, method: Any) -> None:  # of any class: a subclass plans one method, and knows its class
        self.method = method
        method.skips_start, method.assumed = True, []

    def build(self) -> nn.Module:
        """Build the network that is trained, at a random start, without reading a file."""
        return cast(nn.Module, self.method.build_network())

    def loss(self, batch: Batch) -> Tensor:
        """The loss of one batch, a scalar."""
        return cast(Tensor, self.method.training_losses(batch)["loss"])

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene | None:
        """The learngene in a state dict of the network; None without one, or where training decides its size."""
        return cast(Learngene | None, self.method.learngene(state))

    @property
    def architectures(self) -> Sequence[Architecture]:
        """Architectures of which each step trains some; none where every step trains the same network."""
        return ()

    @contextmanager
    def restricted_to(self, architecture: Architecture) -> Iterator[None]:
        """Inside the block every step trains this architecture."""
        yield

    def stand_ins(self) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Real tensors of the last step that count as kept, and the tensors without memory that stand for them."""
        return (), ()
