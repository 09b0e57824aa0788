"""Supervised training from a start: descendants, and the ancestor itself."""

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from torch import Tensor, nn

from lgx.artifacts.learngene import Learngene
from lgx.core.batch import Batch
from lgx.initialization import Initializer, initialize
from lgx.initialization.base import Head
from lgx.methods.base import Method
from lgx.methods.baselines.random import RandomStart


class Finetune(Method):
    """Train a descendant from the start that an initializer gives it, with labels alone.

    Args:
        initializer: Where the start comes from.
        head: ``keep`` takes the head along, ``new`` starts it at random.
        kwargs: Arguments of every method.
    """

    trains: ClassVar[Literal["descendant", "ancestor", "learngene"]] = "descendant"
    reads_text = True
    shards = True

    def __init__(self, initializer: Initializer | None = None, head: Head = "keep", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.initializer = initializer or RandomStart()
        self.head: Head = head

    @property
    def method(self) -> str:
        """The initializer's method."""
        return self.initializer.method

    def build_network(self) -> nn.Module:
        """The descendant with its start; when a checkpoint follows, without reading the source."""
        if self._trainer is None or self.weights_follow:
            return self.architecture.build(None, self.drop_rate)
        start = initialize(self.architecture, self.initializer, self.task, self.head, self.drop_rate)
        self.print(start.describe())
        return start.model

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy with labels."""
        return {"loss": self.label_loss(self(batch.inputs), batch.targets)}


class Ancestor(Finetune):
    """Train an ancestor, or adapt a pretrained one to a task; the result is a learngene file of the whole network.

    Args:
        kwargs: Arguments of every method.
    """

    trains = "ancestor"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @property
    def method(self) -> str:
        """``ancestor``."""
        return "ancestor"

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The whole network."""
        return Learngene("ancestor", self.architecture, dict(state))
