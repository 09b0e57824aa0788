"""What a plan runs to count one training step of a method."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lightning.pytorch import LightningModule
from torch import Tensor, nn

from lgx.architectures import Architecture
from lgx.core.batch import Batch


class CostProbe:
    """One training step of a method whose files may not exist yet.

    A plan builds the network on tensors without memory, runs :meth:`loss` on an empty batch, and counts operations and
    the tensors that the backward pass needs. The method knows its tasks; its teacher is replaced by a stand-in.

    Args:
        method: The method.

    Attributes:
        needs_memory: Whether the network must have real weights, because its own work depends on their values.
        knows_learngene: Whether the learngene's size is known before training.
        notes: What the plan says about what is counted.
    """

    needs_memory: bool = False
    knows_learngene: bool = True
    notes: tuple[str, ...] = ()

    def __init__(self, method: LightningModule) -> None:
        self.method: Any = method  # a subclass probes one method, and knows its class

    def build(self) -> nn.Module:
        """Build the network that is trained, at a random start, without reading a file."""
        self.method.weights_follow = True
        network: nn.Module = self.method.build_network()
        return network

    def loss(self, batch: Batch) -> Tensor:
        """The loss of one batch."""
        loss: Tensor = self.method.training_losses(batch)["loss"]
        return loss

    @property
    def architectures(self) -> Sequence[Architecture]:
        """Architectures of which each step trains some; none where every step trains the same network."""
        return ()

    @contextmanager
    def restricted_to(self, architectures: Sequence[Architecture]) -> Iterator[None]:
        """Inside the block every step trains one of these architectures."""
        yield

    def prepare(self) -> None:
        """Build what cannot be built on tensors without memory; called before each count."""
        return None

    def stand_ins(self) -> tuple[Sequence[Tensor], Sequence[Tensor]]:
        """Real tensors of the last step that count as kept, and the tensors without memory that stand for them."""
        return (), ()
