"""Supervised training from a start: descendants, and the ancestor itself."""

from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor, nn

from lgx.artifacts.learngene import Learngene
from lgx.artifacts.metadata_schema import TASK
from lgx.core.batch import Batch
from lgx.core.schema import check_fields
from lgx.core.task import Normalization
from lgx.initialization import Head, Initializer, initialize
from lgx.methods.base import Method, Trained
from lgx.methods.baselines.random import RandomStart
from lgx.methods.baselines.spec import ANCESTOR, PRETRAINED
from lgx.methods.normalization import follow_normalization


class Finetune(Method):
    """Train a descendant with labels, from the start that an initializer gives it.

    Images are normalized as the start was trained to read them, unless ``data.mean`` and ``data.std`` are given. A
    checkpoint keeps the normalization.

    Args:
        initializer: Gives the start; by default it is random.
        head: ``keep`` takes the head from the initializer, ``new`` starts it at random.
        kwargs: Arguments of every method.
    """

    spec = PRETRAINED
    shards = True
    plain_network = True
    trains: ClassVar[Trained] = "descendant"

    def __init__(self, initializer: Initializer | None = None, head: Head = "keep", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.initializer = initializer or RandomStart()
        self.head: Head = head
        self._printed: set[str] = set()

    @property
    def method(self) -> str:
        """The initializer's method."""
        return self.initializer.named(self.architecture)

    def learn_tasks(self) -> None:
        """See :class:`Method`; images follow the normalization of the start."""
        super().learn_tasks()
        if self.initializer.reads_source and not self.weights_follow:
            self._follow(self.initializer.normalization(self.task), f"the start ({self.method})")

    def _follow(self, wanted: Normalization | None, start: str) -> None:
        line = follow_normalization(self.data_module(), wanted, start)
        if line and line not in self._printed:  # a run that is tested learns its tasks again
            self.print(line)
        self._printed.add(line)
        super().learn_tasks()

    def describe(self) -> dict[str, Any]:
        """See :class:`Method`; with the normalization of the images."""
        used = {task.normalization for task in self.tasks.values() if task.kind != "text"}
        own = {key: list(values) for key, values in used.pop()._asdict().items()} if len(used) == 1 else None
        return {**super().describe(), "normalization": own}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """See :class:`Method`; images follow the normalization that the checkpoint's network was trained with."""
        super().on_load_checkpoint(checkpoint)
        own = checkpoint["lgx"].get("normalization")  # checkpoints of lgx 0.1.0 were trained with the data set's own
        if self._trainer is not None and own is not None:
            own = check_fields(own, {key: TASK[key] for key in ("mean", "std")}, "--ckpt_path: normalization", True)
            self._follow(Normalization(tuple(own["mean"]), tuple(own["std"])), "the checkpoint's network")

    def build_network(self) -> nn.Module:
        """The descendant with its start; without reading the source where a checkpoint is loaded next."""
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

    spec = ANCESTOR
    trains: ClassVar[Trained] = "ancestor"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @property
    def method(self) -> str:
        """``ancestor``."""
        return self.spec.name

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The whole network."""
        return Learngene(self.method, self.architecture, dict(state))
