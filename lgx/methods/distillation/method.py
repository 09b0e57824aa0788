"""Distillation of an ancestor into a plain network."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from lgx.architectures import Architecture
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.components.features import FeatureProjection, feature_losses
from lgx.components.losses import distillation_loss, multilabel_distillation_loss
from lgx.components.metrics import agreement_with
from lgx.components.teacher import Teacher, TeacherRequest
from lgx.components.updates import mean_of_examples
from lgx.core.batch import Batch
from lgx.core.schema import check_option
from lgx.core.task import AGREEMENT, IGNORE, Normalization, Task
from lgx.errors import UserError
from lgx.methods.base import Method
from lgx.methods.distillation import SPEC
from lgx.methods.distillation.guidance import PROJECTION, classes_of, projected_features, stored_widths
from lgx.methods.distillation.start import StudentStart, stage_shares, start_from_ancestor

DistillGuidance = Literal["logits", "features"]


class Distill(Method):
    """Train a network on labels and on the predictions or features of a frozen ancestor.

    ``loss = (1 - α) CE(p_s, y) + α CE(softmax(p_s / τ), softmax(p_t / τ))`` with the network's logits p_s and the
    ancestor's logits p_t (SWS [0], Eq. 2-4, after [1]). The learngene of a shallow network trained so is Simple-LG
    ([0], Sec. 1): its layers are expanded without having been trained for it. Where an image may have several labels,
    both terms are binary: see :func:`~lgx.components.losses.multilabel_distillation_loss`.

    ``guidance: features`` replaces the second term by :func:`~lgx.components.features.feature_losses`: class token or
    pooled tokens, and patch tokens, through a learned projection; of texts the mean of the tokens, and all tokens. The
    ancestor needs no head. Images without labels (``--data UnlabeledFolderData``, ``--data.labels false``) suffice;
    then the guidance is the whole loss. With ``features``, the network then has no head; with ``logits``, it predicts
    the ancestor's classes. Validation then shows the guidance as ``val/loss`` (the KL divergence of logits) and
    ``val/agreement``: the share of images with the ancestor's prediction, or the mean cosine similarity of projected
    and target class token.

    [0]: Xia et al., "Exploring Learngene via Stage-wise Weight Sharing for Initializing Variable-sized Models",
    IJCAI 2024, https://arxiv.org/abs/2404.16897
    [1]: Hinton et al., "Distilling the Knowledge in a Neural Network", 2015, https://arxiv.org/abs/1503.02531

    Args:
        ancestor: The teacher: learngene file, folder, checkpoint or timm model name. Without it, labels alone are
            learned.
        alpha: Share α of the distillation loss, in [0, 1]. The paper of SWS gives no value; ours is 0.5. Without
            labels it is not used.
        temperature: Temperature τ > 0 of the distillation of logits. The paper of SWS gives no value; ours is 1.
        guidance: ``logits`` as in the paper, or ``features``.
        start: ``random``, or from the ancestor's layers (our addition). The ancestor's layers are divided into L equal
            parts. Layer i is the ``middle`` layer of part i, or the ``mean`` of part i. All other parameters then come
            from the ancestor, the head only if the classes agree. From a wider ancestor, evenly spaced elements are
            taken, as in weight selection. The start is a part of the method's name: ``simple_lg_from_middle``.
        kwargs: Arguments of every method.
    """

    spec = SPEC
    plain_network = True
    follows_normalization = True

    def __init__(
        self,
        ancestor: str | None = None,
        alpha: float = 0.5,
        temperature: float = 1.0,
        guidance: DistillGuidance = "logits",
        start: StudentStart = "random",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_option("alpha", alpha, 0 <= alpha <= 1, "a share in [0, 1]")
        check_option("temperature", temperature, temperature > 0, "a positive number")
        self.ancestor, self.alpha, self.temperature, self.guidance = ancestor, alpha, temperature, guidance
        self.has_labels = self.parsed_architecture.num_classes > 0
        self.evaluates_with_teacher = not self.has_labels  # then the loss has only the ancestor
        if guidance == "features" and ancestor is None:
            raise UserError("model.guidance: features need an ancestor; give model.ancestor")
        self.start = start
        if self.is_from_ancestor and ancestor is None:
            raise UserError(f"model.start: {start} needs the ancestor's layers; give model.ancestor")

    @property
    def is_from_ancestor(self) -> bool:
        """Whether the network starts from the ancestor's layers."""
        return self.start != "random"

    @property
    def method(self) -> str:
        """The method's name, with a start other than the papers': ``sws``, ``sws_from_middle``."""
        return f"{self.spec.name}_from_{self.start}" if self.is_from_ancestor else self.spec.name

    @cached_property
    def source(self) -> PretrainedNetwork:
        """The stored ancestor; deleted when the network has its start."""
        return load_pretrained(self.ancestor or "")

    def start_normalization(self) -> tuple[Normalization | None, str] | None:
        """The ancestor's normalization if its layers are the start; already known for a built network."""
        if not self.is_from_ancestor or hasattr(self, "network"):
            return None
        return Normalization(self.source.mean, self.source.std), f"the start ({self.method})"

    @cached_property
    def task_architecture(self) -> Architecture:
        """The architecture in ``arch`` with the task's classes; without labels with no head, or the ancestor's."""
        if self.has_labels or self.guidance == "features" or self.ancestor is None:
            return self.parsed_architecture
        return self.parsed_architecture.replace(num_classes=classes_of(self.ancestor))

    @cached_property
    def architecture(self) -> Architecture:
        """Architecture of the network."""
        return self.task_architecture

    def check_task(self, task: Task) -> None:
        """Refuse a task that does not suit the network, or without labels and without an ancestor."""
        if self.ancestor is None or task.is_labeled:
            super().check_task(task)
            return
        if self.mix is not None:
            raise UserError("model.mixup, model.cutmix: mix labels, but the images have no labels; leave both at 0")
        self.architecture.check_inputs(task, "model.arch")

    def check_ancestor(self, ancestor: Architecture) -> None:
        """Refuse an ancestor of other sizes than the network's.

        Raises:
            UserError: If a size differs.
        """
        architecture = self.architecture
        if ancestor.replace(num_classes=architecture.num_classes, kind=architecture.kind) != architecture:
            raise UserError(f"model.arch: must have the ancestor's sizes; write {ancestor.spec()}")

    def teacher_request(self) -> TeacherRequest | None:
        """The ancestor, or None."""
        if self.ancestor is None or self.task is None:
            return None
        features_only = not self.has_labels or self.guidance == "features"
        return TeacherRequest(self.ancestor, self.task, features_only)

    def build_network(self) -> nn.Module:
        """The network at its start; the ancestor's layers are not read if a checkpoint follows."""
        starts = self.is_from_ancestor and self._trainer is not None and not self.is_restored
        if starts:
            large = self.source.require_architecture("model.start")
            shares = self.ancestor_shares(large.depth)
            if (shares == shares.round()).all():  # whole layers
                self.architecture = self.architecture.with_layers(large, shares.argmax(dim=1).tolist())
        network = self.random_network()
        if starts:
            names = self.task.class_names if self.task else ()
            self.print(start_from_ancestor(network, self.architecture, self.source, shares, names).describe())
            del self.source
        if self.guidance == "features":
            if self.teacher is None and self._trainer is not None and self._trainer.state.fn == "fit":
                # Lightning's averaging of weights reads the network before setup.
                self.teacher = Teacher.requested(cast(TeacherRequest, self.teacher_request()))
            if self.teacher is not None:
                network.projection = FeatureProjection(self.architecture.embed_dim, *self.teacher.widths)
        return network

    def random_network(self) -> nn.Module:
        """The network at its random start."""
        return self.architecture.build(None, self.drop_rate)

    def ancestor_shares(self, depth: int) -> Tensor:
        """Share of each ancestor layer in each layer at the network's start, (L, depth)."""
        return stage_shares((1,) * self.architecture.depth, depth, self.start)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss`` and its parts ``loss_labels`` and ``loss_distillation``; without labels ``loss`` alone."""
        if self.guidance == "features":
            losses, _, logits = self.feature_losses(batch)
            distilled = self.mean_loss(losses, batch)
        else:
            logits = self(batch.inputs)
            if self.teacher is None:
                return {"loss": self.label_loss(logits, batch.targets)}
            distilled = self.distilled(logits, self._teacher_of(batch)(batch.inputs), batch.targets)
        if not self.has_labels:
            return {"loss": distilled}
        return self.weighted(batch, logits, distilled)

    def weighted(self, batch: Batch, logits: Tensor, distilled: Tensor) -> dict[str, Tensor]:
        """``loss``, which is ``(1 - α)`` times the loss of logits (B, K) plus α times a distance, and its parts."""
        labels = self.label_loss(logits, batch.targets)
        loss = (1 - self.alpha) * labels + self.alpha * distilled
        return {"loss": loss, "loss_labels": labels, "loss_distillation": distilled}

    def feature_losses(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
        """Result of :func:`~lgx.components.features.feature_losses`, (B,) each, and logits."""
        real = self.real_tokens(batch)
        features, logits = projected_features(self.network, batch.inputs, real)
        wanted, _ = self._teacher_of(batch).features_and_logits(batch.inputs, real)
        return *feature_losses(features, wanted, real), logits

    def real_tokens(self, batch: Batch) -> Tensor | None:
        """Which tokens of texts are not padding, (B, N); None for images."""
        return batch.inputs[:, 1].bool() if self.architecture.reads_text else None

    def mean_loss(self, losses: Tensor, batch: Batch) -> Tensor:
        """Mean of the losses of examples, (B,)."""
        return losses.mean() if self.architecture.reads_text else mean_of_examples(losses, batch.targets)

    def distilled(self, logits: Tensor, answers: Tensor, targets: Tensor) -> Tensor:
        """Distance of logits from the ancestor's, a scalar.

        Args:
            logits: The network's, (B, K), (B, K, H, W) for segmentation, or (B, N, V) for next tokens.
            answers: The ancestor's, of the same shape.
            targets: Those of the batch, which say which pixels, labels or tokens count.
        """
        if self.architecture.kind == "multilabel":
            return multilabel_distillation_loss(logits, answers, self.temperature, targets != IGNORE)
        return distillation_loss(logits, answers, self.temperature, targets)

    def _teacher_of(self, batch: Batch) -> Teacher:
        """The ancestor for images with the normalization of the batch's set."""
        return cast(Teacher, self.teacher).for_task(self.tasks[batch.task])

    def evaluate_batch(self, batch: Batch, split: Literal["val", "test"]) -> None:
        """Update and log the metrics of one batch; without labels the agreement with the ancestor."""
        if self.has_labels:
            super().evaluate_batch(batch, split)
            return
        if self.guidance == "features":
            losses, agreement, _ = self.feature_losses(batch)
        else:
            answers = self._teacher_of(batch)(batch.inputs)
            losses, agreement = agreement_with(self(batch.inputs), answers, self.temperature)
        self.log_agreement(split, losses, agreement)

    def log_agreement(self, split: str, losses: Tensor, agreement: Tensor) -> None:
        """Update and log loss and agreement of the examples of a batch, (B,) each."""
        metrics = self.metrics_of(split)
        for name, value in (("loss", losses), (AGREEMENT, agreement), ("n", torch.tensor(len(losses)))):
            metrics[name].update(value)
            self.log(f"{split}/{name}", metrics[name], prog_bar=name == AGREEMENT, on_step=False, on_epoch=True)

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Logits, (B, K), float32."""
        if self.architecture.num_classes == 0:
            raise UserError("predict: the network was trained without labels and has no head; fine-tune a descendant")
        return super().predict_step(batch, batch_idx)

    @staticmethod
    def without_projection(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The parameters of a network without its projection."""
        return {name: tensor for name, tensor in state.items() if not name.startswith(PROJECTION)}

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """All layers of the network, without the projection."""
        return Learngene(self.method, self.architecture, self.without_projection(state), ancestor=self.ancestor or "")

    def describe(self) -> dict[str, Any]:
        """The checkpoint's description; with a projection, the network is not a plain one."""
        return super().describe() | {"plain_network": self.plain_network and self.guidance == "logits"}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Restore the number of epochs, and the size of a projection whose ancestor is not loaded."""
        super().on_load_checkpoint(checkpoint)
        if self.guidance == "features" and not hasattr(self.network, "projection"):
            widths = stored_widths(checkpoint["state_dict"])
            self.network.projection = FeatureProjection(self.architecture.embed_dim, *widths).to(self.device)
