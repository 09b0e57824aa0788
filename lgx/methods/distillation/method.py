"""Distillation of an ancestor into a plain network."""

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor, nn

from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.components.losses import distillation_loss
from lgx.components.teacher import TeacherRequest
from lgx.core.batch import Batch
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.methods.distillation.spec import SIMPLE_LG
from lgx.methods.distillation.start import Start, stage_shares, start_from_ancestor
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
        start: ``random`` as in the papers, or from the ancestor's own layers, which is ours: layer i of L is the
            ancestor layer in the ``middle`` of its i-th L-th, or the ``mean`` of that part. Everything outside the
            layers is then the ancestor's as well, the head if the classes agree. The method's name says so:
            ``simple_lg_from_middle``.
        kwargs: Arguments of every method.
    """

    spec = SIMPLE_LG
    teacher_option = "ancestor"
    plain_network = True

    def __init__(
        self,
        ancestor: str | None = None,
        alpha: float = 0.5,
        temperature: float = 1.0,
        start: Start = "random",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_share("alpha", alpha, closed=True)
        check_positive("temperature", temperature)
        self.ancestor, self.alpha, self.temperature = ancestor, alpha, temperature
        self.set_start(start)

    def set_start(self, start: str) -> None:
        """Choose the start of the network.

        Raises:
            UserError: If it needs an ancestor, and there is none.
        """
        self.start = start
        if self.is_from_ancestor and self.ancestor is None:
            raise UserError(f"model.start: {start} is made from the ancestor's layers; give model.ancestor")

    @property
    def is_from_ancestor(self) -> bool:
        """Whether the network starts from the ancestor's layers."""
        return self.start != "random"

    @property
    def method(self) -> str:
        """The method's name, with the start where it is not the papers': ``sws``, ``sws_from_middle``."""
        return f"{self.spec.name}_from_{self.start}" if self.is_from_ancestor else self.spec.name

    def teacher_request(self) -> TeacherRequest | None:
        """The ancestor, where there is one."""
        if self.ancestor is None or self.task is None:
            return None
        return TeacherRequest(self.ancestor, self.task)

    def build_network(self) -> nn.Module:
        """The network at its start; without reading the ancestor where a checkpoint is loaded next."""
        network = self.random_network()
        if self.is_from_ancestor and self._trainer is not None and not self.weights_follow:
            ancestor = load_pretrained(self.ancestor or "")
            shares = self.ancestor_shares(ancestor.require_known("model.start").depth)
            self.print(start_from_ancestor(network, self.architecture, ancestor, shares).describe())
        return network

    def random_network(self) -> nn.Module:
        """The network at its random start."""
        return self.architecture.build(None, self.drop_rate)

    def ancestor_shares(self, depth: int) -> Tensor:
        """Share of each ancestor layer in each layer of the network at its start, (L, depth)."""
        return stage_shares((1,) * self.architecture.depth, depth, cast(Start, self.start))

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
