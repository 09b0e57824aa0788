"""TAL and TAL+: a hypernetwork that reads a task embedding and learns from an ancestor."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from lgx.artifacts.learngene import EMBEDDING_PREFIX, Learngene
from lgx.artifacts.sources import is_learngene
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.components.losses import distillation_loss, multilabel_distillation_loss
from lgx.components.teacher import TeacherRequest
from lgx.core.batch import Batch
from lgx.core.schema import check_option
from lgx.core.task import IGNORE
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig, Layout, Projection, meta_batch_loss, read_config
from lgx.methods.hypernetworks import TAL as SPEC
from lgx.methods.hypernetworks.base import HypernetMethod


def feature_divergence(student: Tensor, teacher: Tensor) -> Tensor:
    """Divergence of a student's projected features from the teacher's features (TAL, Eq. 4).

    ``KL(softmax(E M) ‖ softmax(E_anc))`` over the T features, averaged over the batch.

    Args:
        student: Projected features E M, (B, T).
        teacher: Features E_anc of the ancestor, (B, T).

    Returns:
        Scalar, at least 0.
    """
    return F.kl_div(_log_softmax(teacher), _log_softmax(student), log_target=True, reduction="batchmean")


def official_feature_divergence(student: Tensor, teacher: Tensor, num_classes: int, temperature: float = 3.0) -> Tensor:
    """The loss of TAL's official code, which differs from Eq. 4.

    ``τ² Σ KL(softmax(E_anc / τ) ‖ softmax(E M / τ)) / (B K)``. Compared with :func:`feature_divergence`, the two
    arguments are swapped, a temperature is added, and the sum is divided by the number of logits, B K, which makes the
    loss negligible for large K.

    Args:
        student: Projected features E M, (B, T).
        teacher: Features E_anc of the ancestor, (B, T).
        num_classes: K.
        temperature: τ > 0.

    Returns:
        Scalar, at least 0.
    """
    log_probabilities = _log_softmax(student / temperature), _log_softmax(teacher / temperature)
    total = F.kl_div(*log_probabilities, log_target=True, reduction="sum")
    return total * temperature**2 / (len(student) * num_classes)


def _log_softmax(features: Tensor) -> Tensor:
    """Log-softmax over the T features, (B, T), in float32."""
    return features.float().log_softmax(dim=-1)


TALGuidance = Literal["features", "official", "logits"]
_PROJECTIONS: dict[TALGuidance, Projection] = {"features": "predicted", "official": "random", "logits": "none"}


class TAL(HypernetMethod):
    """Task-Aware Learngene [0]; trains stage 1 or stage 2, depending on the arguments.

    Stage 1 has one large data set and an ``ancestor``: ``loss = α L_aux + (1 - α) CE + γ Σ ‖W‖_F``. Stage 2 has many
    tasks, ``start`` and ``task_embeddings``: each batch is of one task, whose embedding modulates every block of the
    encoder (FiLM), and the loss is w_τ CE (with an ancestor also α L_aux, as in stage 1).

    ``guidance`` chooses L_aux:

    - ``features`` (default): Eq. 4, the KL divergence between the softmax of the ancestor's features and that of the
      network's projected class-token features; the projection M is predicted like any other parameter. It is the
      default because the official loss is almost zero.
    - ``official``: as in the released code. The arguments of the KL divergence are exchanged, the temperature is 3, and
      the sum is divided by the number of logits. M is drawn at random in every step, neither predicted nor trained.
    - ``logits``: as in TAL+, which also trains on the larger set ``ViTs+-1K`` (experiments/tal/tal_plus.yaml). The
      ancestor's logits are soft labels with ``temperature``; its classes must be the task's.

    On text (Table 6) the paper has neither stage 1 nor guidance: a pretrained GPT-2 embeds the tasks, and one run tunes
    on them. With guidance, the ancestor's mean token replaces its class token, and a text's last token replaces the
    network's; a language model's is the mean token.

    The paper gives no α; its code has 0.2. Its code has no ancestor in stage 2. In stage 2 the code freezes the loaded
    encoder, but still trains it. Our ``freeze_encoder`` freezes it, except for the modulation by the task.

    [0]: Xu et al., "Learngene Tells You How to Customize: Task-Aware Parameter Initialization at Flexible Scales",
    ICML 2025, https://proceedings.mlr.press/v267/xu25af.html

    Args:
        ancestor: The teacher: learngene file, folder, checkpoint or timm model name. Without it, labels alone are
            learned.
        alpha: Share α of the guidance, in [0, 1].
        guidance: ``features``, ``official`` or ``logits``.
        temperature: Temperature of ``logits``.
        start: Learngene of stage 1. Its configuration replaces width, layers, heads, max_shape, decoder, rank, max_size
            and layout.
        task_embeddings: File of ``lgx embed`` with an embedding of every task. Without it, there is no task
            information, and modulations of ``start`` are left out.
        freeze_encoder: Train only the decoder and the encoder's modulation by the task.
        decoder: ``low_rank``, or ``conv`` for GHN-3 with task information.
        rank: Rank r of every predicted weight.
        max_size: Largest number of rows or columns of the low-rank decoder's factors.
        layout: Layout of the decoder's factors.
        kwargs: Arguments of ``HypernetMethod`` and of every method.
    """

    spec = SPEC

    def __init__(
        self,
        ancestor: str | None = None,
        alpha: float = 0.2,
        guidance: TALGuidance = "features",
        temperature: float = 1.0,
        start: str | None = None,
        task_embeddings: str | None = None,
        freeze_encoder: bool = False,
        decoder: Literal["conv", "low_rank"] = "low_rank",
        rank: int = 90,
        max_size: int = 32768,
        layout: Layout = "official",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_option("alpha", alpha, 0 <= alpha <= 1, "a share in [0, 1]")
        check_option("temperature", temperature, temperature > 0, "a positive number")
        if freeze_encoder and start is None:
            raise UserError("model.freeze_encoder: would freeze a random encoder; give model.start")
        self.decoder = decoder
        self.decoder_options = {"rank": rank, "max_size": max_size, "layout": layout}
        self.ancestor, self.alpha, self.guidance, self.temperature = ancestor, alpha, guidance, temperature
        self.start, self.freeze_encoder = start, freeze_encoder
        self.task_embeddings = task_embeddings

    @cached_property
    def embeddings(self) -> TaskEmbeddings | None:
        """Embeddings of the tasks; None without task information."""
        if self.task_embeddings is None:
            return None
        return TaskEmbeddings.load(self.task_embeddings)

    @cached_property
    def earlier(self) -> Learngene | None:
        """The learngene of the earlier stage, without its tensors; None without one."""
        start = self.start
        if start is None:
            return None
        if not is_learngene(start):
            raise UserError(f"model.start: expected a learngene file of TAL, LoGAH or GHN-3, got {start}")
        learngene = Learngene.load(start)
        if learngene.hypernet is None:
            raise UserError(f"model.start: {start} is a learngene of {learngene.method}, not a hypernetwork")
        sizes = [getattr(network, "vocab_size", None) for network in (learngene.architecture, self.architecture)]
        if sizes[0] != sizes[1]:
            read = ["images" if size is None else f"texts of {size} tokens" for size in sizes]
            raise UserError(f"model.start: {start} was trained on {read[0]}, but model.arch reads {read[1]}")
        return replace(learngene, tensors={})

    @cached_property
    def config(self) -> HypernetConfig:
        """The configuration of ``start`` or of the arguments, with the width of the task embeddings."""
        config = read_config(self.earlier.hypernet, self.start or "") if self.earlier else super().config
        width = self.embeddings.width if self.embeddings else None
        if None not in (width, config.task_width) and width != config.task_width:
            raise UserError(
                f"model.task_embeddings: {self.task_embeddings} has embeddings of {width} numbers, but {self.start} "
                f"was tuned with {config.task_width}; make them with the same ancestor"
            )
        return replace(config, task_width=width)

    @cached_property
    def trained_widths(self) -> tuple[int, ...]:
        """See :class:`HypernetMethod`; with the earlier stage's widths, empty if these are unknown."""
        widths = super().trained_widths
        if self.earlier is None:
            return widths
        return tuple(sorted({*widths, *self.earlier.trained_widths})) if self.earlier.trained_widths else ()

    @property
    def method(self) -> str:
        """``tal``, or the label, which learngene and descendants keep: ``tal_plus``, ``tal_st``."""
        return self._label or self.spec.name

    def setup(self, stage: str) -> None:
        """Learn the tasks, look up every task's embedding, and for training load the ancestor."""
        super().setup(stage)
        if self.config.task_width is not None:
            for task in self.tasks:
                self.task_embedding(task)

    def teacher_request(self) -> TeacherRequest | None:
        """The ancestor; None without one, or if α is 0."""
        if self.ancestor is None or self.alpha == 0:
            return None
        if self.guidance == "logits" and len(self.tasks) > 1:
            raise UserError(
                "model.guidance: logits needs an ancestor with the task's classes, so it supports one task; choose "
                "features"
            )
        task = next(iter(self.tasks.values()))
        return TeacherRequest(self.ancestor, task, self.guidance != "logits")

    def task_embedding(self, task: str) -> Tensor | None:
        """The task's embedding, (T,); None without task information."""
        if self.embeddings is None:
            return None
        return self.embeddings.of(task, f"model.task_embeddings: {self.task_embeddings}").to(self.device)

    def build_network(self) -> nn.Module:
        """The hypernetwork with the start's weights; modulations that ``start`` lacks are initialized to zero."""
        hypernet = Hypernet(self.config)
        if self.start is not None and not self.is_restored:
            state = hypernet.state_dict()
            weights = {name: w for name, w in Learngene.load(self.start).weights.items() if name in state}
            hypernet.load_state_dict({**state, **weights})
        if self.freeze_encoder:
            for name, parameter in hypernet.encoder.named_parameters():
                parameter.requires_grad_(".film." in name)
        return hypernet

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss`` and its parts ``loss_labels``, ``loss_norms`` and, with an ancestor, ``loss_guidance``."""
        if self.teacher is None:
            return super().training_losses(batch)
        teacher = self.teacher.for_task(self.tasks[batch.task])
        wanted = teacher(batch.inputs) if self.guidance == "logits" else teacher.features(batch.inputs)

        def parts(logits: Tensor, features: Tensor) -> Tensor:
            """Losses of labels and guidance, (2,), of logits (B, K) or (B, N, V) and features (B, T)."""
            if self.guidance == "logits" and self.tasks[batch.task].kind == "multilabel":
                is_labeled = batch.targets != IGNORE
                guidance = multilabel_distillation_loss(logits, wanted, self.temperature, is_labeled)
            elif self.guidance == "logits":
                guidance = distillation_loss(logits, wanted, self.temperature, batch.targets)
            elif self.guidance == "official":
                guidance = official_feature_divergence(features, wanted, logits.shape[-1])
            else:
                guidance = feature_divergence(features, wanted)
            return torch.stack([self.label_loss(logits, batch.targets), guidance])

        embedding = self.task_embedding(batch.task)
        projection = _PROJECTIONS[self.guidance]
        (labels, guidance), norms = meta_batch_loss(
            self.hypernet, self.draw_for(batch), batch.inputs, parts, embedding, projection, wanted.shape[1]
        )
        loss_norms = self.gamma * norms
        loss = (1 - self.alpha) * labels + self.alpha * guidance + loss_norms
        return {"loss": loss, "loss_labels": labels, "loss_guidance": guidance, "loss_norms": loss_norms}

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The hypernetwork, and its tasks with their embeddings."""
        tensors = dict(state)
        if self.embeddings is not None:
            tensors |= {f"{EMBEDDING_PREFIX}{task}": self.embeddings.tensors[task] for task in self.tasks}
        return Learngene(
            self.method,
            self.architecture,
            tensors,
            ancestor=self.ancestor or (self.embeddings.ancestor if self.embeddings else ""),
            hypernet=self.config.to_dict(),
            trained_widths=self.trained_widths,
            tasks={name: task.to_dict() for name, task in self.tasks.items()},
        )
