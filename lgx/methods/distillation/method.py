"""Distillation of an ancestor into a plain network."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from lgx.artifacts.learngene import Learngene
from lgx.components.losses import distillation_loss
from lgx.components.teacher import Teacher
from lgx.core.batch import Batch
from lgx.errors import UserError
from lgx.methods.base import Method


class Distill(Method):
    """Train a network on labels and on the predictions of a frozen ancestor (SWS, Eq. 2-4; Hinton et al., 2015).

    ``loss = (1 - α) CE(p_s, y) + α CE(softmax(p_s / τ), softmax(p_t / τ))``. A shallow network trained so gives the
    learngene of Simple-LG (SWS, Sec. 1): its layers, expanded without ever having been trained for it.

    Args:
        ancestor: The teacher: learngene file, folder, checkpoint or timm model name; none trains on labels alone.
        alpha: Share α of the distillation loss, in [0, 1]. The paper gives no value; ours is 0.5.
        temperature: τ > 0. The paper gives no value; ours is 1.
        kwargs: Arguments of every method.
    """

    reads_text = True
    teacher_option = "ancestor"

    def __init__(
        self, ancestor: str | None = None, alpha: float = 0.5, temperature: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not 0 <= alpha <= 1:
            raise UserError(f"model.alpha: a share in [0, 1], got {alpha}")
        if temperature <= 0:
            raise UserError(f"model.temperature: must be positive, got {temperature}")
        self.ancestor, self.alpha, self.temperature = ancestor, alpha, temperature
        self._teacher: Teacher | None = None

    @property
    def method(self) -> str:
        """``simple_lg``."""
        return "simple_lg"

    def setup(self, stage: str) -> None:
        """Load the ancestor, for training only.

        Raises:
            UserError: If it cannot be read or does not fit the task.
        """
        super().setup(stage)
        if stage == "fit" and self.ancestor is not None and self.task is not None:
            self._teacher = Teacher.load(self.ancestor, self.task)

    def build_network(self) -> nn.Module:
        """A randomly started network."""
        return self.architecture.build(None, self.drop_rate)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss`` and its parts ``loss_labels`` and ``loss_distillation``."""
        logits = self(batch.inputs)
        labels = self.label_loss(logits, batch.targets)
        if self._teacher is None:
            return {"loss": labels}
        distilled = distillation_loss(logits, self._teacher(batch.inputs), self.temperature)
        loss = (1 - self.alpha) * labels + self.alpha * distilled
        return {"loss": loss, "loss_labels": labels, "loss_distillation": distilled}

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """All layers of the network."""
        return Learngene(self.method, self.architecture, dict(state), ancestor=self.ancestor or "")
