"""Supervised training from a start: descendants, and the ancestor itself."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from jsonargparse.typing import NonNegativeInt
from torch import Tensor, nn
from torch.optim import Optimizer

from lgx.artifacts.learngene import Learngene
from lgx.components.losses import balanced_weights, weighted_label_loss
from lgx.components.optim import parameter_groups
from lgx.core.batch import Batch
from lgx.core.schema import check_option
from lgx.core.task import BALANCED, Normalization, Task
from lgx.errors import UserError
from lgx.initialization import Head, Initializer, initialize
from lgx.methods.base import Method, Trained
from lgx.methods.baselines import ANCESTOR, PRETRAINED
from lgx.methods.baselines.from_source import RandomStart

_FEW, _RATIO = 5, 10
"""A class of fewer examples, or of so many times fewer than the largest one, is reported."""


class Finetune(Method):
    """Train a descendant with labels, from an initializer's start.

    Images get the normalization with which the start was trained, unless ``data.mean`` and ``data.std`` are given. A
    checkpoint keeps the normalization.

    Args:
        initializer: Class of the start, e.g. ``Pretrained``; by default the start is random.
        head: ``keep`` uses the initializer's head, ``new`` a random head.
        layer_decay: Factor of the learning rate from each layer to the one before it, e.g. 0.75: early layers of a
            pretrained network change less.
        class_weights: Weight the loss of each example by N / (K n): N training examples, K classes with examples, n
            examples of its class. Rare classes then count as much as frequent classes (scikit-learn's ``balanced``),
            and validation follows balanced accuracy.
        freeze_epochs: Number of first epochs in which only the head is trained.
        kwargs: Arguments of every method.
    """

    spec = PRETRAINED
    shards = True
    plain_network = True
    follows_normalization = True
    trains: ClassVar[Trained] = "descendant"

    def __init__(
        self,
        initializer: Initializer | None = None,
        head: Head = "keep",
        layer_decay: float = 1.0,
        class_weights: bool = False,
        freeze_epochs: NonNegativeInt = 0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.freeze_epochs = freeze_epochs
        self.weighs_classes = class_weights
        self.class_weights: Tensor | None = None
        check_option("layer_decay", layer_decay, 0 < layer_decay <= 1, "above 0 and at most 1")
        self.layer_decay = layer_decay
        self.initializer = initializer or RandomStart()
        self.head: Head = head

    @property
    def method(self) -> str:
        """The initializer's method."""
        return self.initializer.named(self.architecture)

    def start_normalization(self) -> tuple[Normalization | None, str] | None:
        """That of the initializer's source."""
        if not self.initializer.reads_source:
            return None
        return self.initializer.normalization(self.task), f"the start ({self.method})"

    def build_network(self) -> nn.Module:
        """The descendant with its start; the source is not read if a checkpoint follows."""
        if self._trainer is None or self.is_restored:
            return self.architecture.build(None, self.drop_rate)
        start = initialize(self.architecture, self.initializer, self.task, self.head, self.drop_rate)
        self.print(start.describe())
        self.parsed_architecture = start.architecture
        return start.model

    def on_train_start(self) -> None:
        """Count the classes."""
        data = self.data_module()
        if self.weighs_classes:
            self.class_weights = balanced_weights(data.class_counts).to(self.device)
        elif data.has_class_counts and data.task.metric != BALANCED:
            self._say_imbalance(data.class_counts, dict(enumerate(data.task.class_names)))

    def _say_imbalance(self, counts: Sequence[int], names: Mapping[int, str]) -> None:
        """Report a class of few examples, and classes of very different sizes."""
        least, most = (counts.index(extreme(counts)) for extreme in (min, max))
        if counts[least] < _FEW or _RATIO * counts[least] < counts[most]:
            self.print(
                f"classes    {counts[least]:,} training examples of {names.get(least, least)} to {counts[most]:,} of "
                f"{names.get(most, most)}; --model.class_weights true weights all classes equally"
            )

    def validated_as(self, task: Task) -> Task:
        """See :class:`Method`; balanced accuracy if classes are weighted."""
        if not self.weighs_classes or task.kind not in ("classification", "text"):
            return task
        if task.metric == BALANCED:
            raise UserError("model.class_weights and data.balanced: both balance the classes; give one of them")
        return replace(task, metric=BALANCED)

    def trained_groups(self) -> list[dict[str, Any]]:
        """See :class:`Method`; with a learning rate for each layer."""
        return parameter_groups(self.network, self.layer_decay)

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Remove the gradients of frozen parameters: an optimizer skips parameters without a gradient."""
        if self.current_epoch < self.freeze_epochs:
            for name, parameter in self.network.named_parameters():
                if not name.startswith(self.architecture.head_prefixes):
                    parameter.grad = None

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """Cross-entropy with labels."""
        return {"loss": self.label_loss(self(batch.inputs), batch.targets)}

    def label_loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """See :class:`Method`; weighted with ``class_weights``."""
        if self.class_weights is None:
            return super().label_loss(logits, targets)
        return weighted_label_loss(logits.float(), targets, self.class_weights, self.label_smoothing)


class Ancestor(Finetune):
    """Train an ancestor, or adapt a pretrained network to a task; the learngene file holds the whole network."""

    spec = ANCESTOR
    trains: ClassVar[Trained] = "ancestor"

    @property
    def method(self) -> str:
        """``ancestor``."""
        return self.spec.name

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The whole network."""
        return Learngene(self.method, self.architecture, dict(state))
