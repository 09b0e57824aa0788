"""Distillation of an ancestor into a plain network."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn

from lgx.artifacts.learngene import Learngene
from lgx.components.losses import distillation_loss
from lgx.components.teacher import TeacherRequest
from lgx.core.batch import Batch
from lgx.methods.base import Method
from lgx.methods.distillation.spec import SIMPLE_LG
from lgx.methods.options import check_positive, check_share


class Distill(Method):
    """Train a network on labels and on the predictions of a frozen ancestor.

    ``loss = (1 - α) CE(p_s, y) + α CE(softmax(p_s / τ), softmax(p_t / τ))`` with the network's logits p_s and the
    ancestor's logits p_t (SWS [0], Eq. 2-4, after [1]). The learngene of a shallow network trained so is Simple-LG
    ([0], Sec. 1): its layers are expanded without having been trained for it.

    [0]: Xia et al., "Exploring Learngene via Stage-wise Weight Sharing for Initializing Variable-sized Models",
    IJCAI 2024, https://arxiv.org/abs/2404.16897
    [1]: Hinton et al., "Distilling the Knowledge in a Neural Network", 2015, https://arxiv.org/abs/1503.02531

    Args:
        ancestor: The teacher: learngene file, folder, checkpoint or timm model name; none trains on labels alone.
        alpha: Share α of the distillation loss, in [0, 1]. The paper gives no value; ours is 0.5.
        temperature: τ > 0. The paper gives no value; ours is 1.
        kwargs: Arguments of every method.
    """

    spec = SIMPLE_LG
    teacher_option = "ancestor"
    plain_network = True

    def __init__(
        self, ancestor: str | None = None, alpha: float = 0.5, temperature: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        check_share("alpha", alpha, closed=True)
        check_positive("temperature", temperature)
        self.ancestor, self.alpha, self.temperature = ancestor, alpha, temperature

    def teacher_request(self) -> TeacherRequest | None:
        """The ancestor, where there is one."""
        if self.ancestor is None or self.task is None:
            return None
        return TeacherRequest(self.ancestor, self.task)

    def build_network(self) -> nn.Module:
        """A randomly started network."""
        return self.architecture.build(None, self.drop_rate)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss`` and its parts ``loss_labels`` and ``loss_distillation``."""
        logits = self(batch.inputs)
        labels = self.label_loss(logits, batch.targets)
        if self.teacher is None:
            return {"loss": labels}
        distilled = distillation_loss(logits, self.teacher(batch.inputs), self.temperature)
        loss = (1 - self.alpha) * labels + self.alpha * distilled
        return {"loss": loss, "loss_labels": labels, "loss_distillation": distilled}

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """All layers of the network."""
        return Learngene(self.method, self.architecture, dict(state), ancestor=self.ancestor or "")
