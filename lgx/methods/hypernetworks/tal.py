"""TAL and TAL+: a hypernetwork that an ancestor guides and that is told of the task."""

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from lgx.architectures import Architecture
from lgx.artifacts.learngene import EMBEDDING, SUFFIX, Learngene
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.components.losses import distillation_loss, feature_divergence, official_feature_divergence
from lgx.components.teacher import Teacher
from lgx.core.batch import Batch
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig
from lgx.hypernet.checkpoints import read_config
from lgx.hypernet.low_rank_decoder import Layout
from lgx.hypernet.meta_batch import Projection, guided_meta_batch_loss
from lgx.methods.hypernetworks.base import HypernetMethod

Guidance = Literal["features", "official", "logits"]
_PROJECTIONS: dict[Guidance, Projection] = {"features": "predicted", "official": "random", "logits": "none"}


class TAL(HypernetMethod):
    """Task-Aware Learngene (Xu et al., ICML 2025). Both stages are this class; what is given decides.

    Stage 1, one large data set, an ``ancestor``: ``loss = α L_aux + (1 - α) CE + γ Σ ‖W‖_F``. Stage 2, many tasks,
    ``start`` and ``task_embeddings``: each batch is of one task, whose embedding modulates every block of the encoder,
    and the loss is w_τ CE (with an ancestor, also guided as in stage 1).

    ``guidance`` names L_aux:

    - ``features`` (default): Eq. 4. KL of the softmax of the class token's projected features from the ancestor's; the
      projection M is predicted like any other parameter. The default, because the official variant below weighs next to
      nothing.
    - ``official``: as the released code has it: arguments of the KL exchanged, temperature 3, divided by the number of
      logits, and M drawn anew at every step, neither predicted nor trained.
    - ``logits``: TAL+. The ancestor's logits as soft labels, softened by ``temperature``; its classes must be the
      task's.

    On text (Table 6) the paper has neither stage 1 nor a guide: a pretrained GPT-2 embeds the tasks, and one run tunes
    on them. With a guide, its mean token stands for the class token, and a text's last token for the network's.

    The paper gives no α; 0.2 is hard-coded in its code. Its code has no ancestor in stage 2. It freezes the loaded
    encoder in stage 2 but then trains it all the same; ``freeze_encoder`` freezes it, but for the task's modulation.

    Args:
        ancestor: The guide: learngene file, folder, checkpoint or timm model name; none trains on labels alone.
        alpha: Share α of the guidance, in [0, 1].
        guidance: ``features``, ``official`` or ``logits``.
        temperature: Temperature of ``logits``.
        start: Learngene of an earlier stage. Its configuration counts: width, layers, heads, max_shape, decoder, rank,
            max_size and layout are then not read.
        task_embeddings: File of ``lgx embed`` with an embedding of every task; none tells the hypernetwork nothing of
            the task (TAL without task information), and leaves out modulations that ``start`` has.
        freeze_encoder: Train only the decoder and the encoder's modulation by the task.
        loss_temperature: Weigh the loss of task τ by w_τ ∝ (N_τ / Σ N)^(1/T) with this T, mean 1 (Eq. 7). None weighs
            all alike: the sampling of tasks already follows these weights, and the official code has them only there.
        decoder: ``low_rank``, or ``conv`` for GHN-3 with task information.
        rank: Rank r of every predicted weight.
        max_size: Largest number of rows or columns of the low-rank decoder's factors.
        layout: Layout of its factors.
        kwargs: Arguments of ``HypernetMethod`` and of every method.
    """

    teacher_option = "ancestor"

    def __init__(
        self,
        ancestor: str | None = None,
        alpha: float = 0.2,
        guidance: Guidance = "features",
        temperature: float = 1.0,
        start: str | None = None,
        task_embeddings: str | None = None,
        freeze_encoder: bool = False,
        loss_temperature: float | None = None,
        decoder: Literal["conv", "low_rank"] = "low_rank",
        rank: int = 90,
        max_size: int = 32768,
        layout: Layout = "official",
        **kwargs: Any,
    ) -> None:
        self.decoder = decoder
        self._options = {"rank": rank, "max_size": max_size, "layout": layout}
        super().__init__(**kwargs)
        if not 0 <= alpha <= 1:
            raise UserError(f"model.alpha: a share in [0, 1], got {alpha}")
        for option, value in (("temperature", temperature), ("loss_temperature", loss_temperature)):
            if value is not None and value <= 0:
                raise UserError(f"model.{option}: must be positive, got {value}")
        if freeze_encoder and start is None:
            raise UserError("model.freeze_encoder: a random encoder would stay random; give model.start")
        self.ancestor, self.alpha, self.guidance, self.temperature = ancestor, alpha, guidance, temperature
        self.start, self.freeze_encoder, self.loss_temperature = start, freeze_encoder, loss_temperature
        self._embeddings_file = task_embeddings
        self._embeddings = TaskEmbeddings.load(task_embeddings) if task_embeddings else None
        task_width = self._embeddings.width if self._embeddings else None
        if start is not None:
            self.config = _config_of(start, self.architecture)
            if None not in (task_width, self.config.task_width) and task_width != self.config.task_width:
                raise UserError(
                    f"model.task_embeddings: {task_embeddings} has embeddings of {task_width} numbers, but {start} was "
                    f"tuned with {self.config.task_width}; make them with the same ancestor"
                )
        self.config = replace(self.config, task_width=task_width)
        self._guide: Teacher | None = None

    def decoder_options(self) -> dict[str, Any]:
        """Rank, size and layout."""
        return self._options

    @property
    def method(self) -> str:
        """``tal``, or the label, which descendants take over with the learngene: ``tal_plus``, ``tal_st``."""
        return self._label or "tal"

    def setup(self, stage: str) -> None:
        """Load the ancestor, for training only, and look up every task's embedding.

        Raises:
            UserError: If the ancestor cannot be read or does not fit, or a task has no embedding.
        """
        super().setup(stage)
        for task in self.tasks:
            self.task_embedding(task)
        if stage == "fit" and self.ancestor is not None and self.alpha > 0:
            if self.guidance == "logits" and len(self.tasks) > 1:
                raise UserError(
                    "model.guidance: logits needs an ancestor of the task's own classes; several tasks have none"
                )
            first = next(iter(self.tasks.values()))
            self._guide = Teacher.load(self.ancestor, first, features_only=self.guidance != "logits")

    def task_embedding(self, task: str) -> Tensor | None:
        """The task's embedding, (T,); None without task information."""
        if self._embeddings is None:
            return None
        return self._embeddings.of(task, f"model.task_embeddings: {self._embeddings_file}").to(self.device)

    def build_network(self) -> nn.Module:
        """The hypernetwork with the start's weights; a modulation that is new to them begins at zero."""
        hypernet = Hypernet(self.config)
        if self.start is not None and not self.weights_follow:
            own = hypernet.state_dict()
            weights = {name: w for name, w in Learngene.load(self.start).weights.items() if name in own}
            hypernet.load_state_dict({**own, **weights})
        if self.freeze_encoder:
            for name, parameter in hypernet.encoder.named_parameters():
                parameter.requires_grad_(".film." in name)
        return hypernet

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss`` and its parts ``loss_labels``, ``loss_norms`` and, with an ancestor, ``loss_guidance``."""
        if self._guide is None:
            losses = super().training_losses(batch)
            losses["loss"] = self._weight(batch.task) * losses["loss_labels"] + losses["loss_norms"]
            return losses
        guide = self._guide.for_task(self.tasks[batch.task])
        wanted = guide(batch.inputs) if self.guidance == "logits" else guide.features(batch.inputs)

        def parts(logits: Tensor, features: Tensor) -> Tensor:
            if self.guidance == "logits":
                guidance = distillation_loss(logits, wanted, self.temperature)
            elif self.guidance == "official":
                guidance = official_feature_divergence(features, wanted, logits.shape[1])
            else:
                guidance = feature_divergence(features, wanted)
            return torch.stack([self.label_loss(logits, batch.targets), guidance])

        (labels, guidance), norms = guided_meta_batch_loss(
            self.hypernet,
            self.draw_for(batch),
            batch.inputs,
            parts,
            wanted.shape[1],
            self.task_embedding(batch.task),
            projection=_PROJECTIONS[self.guidance],
        )
        loss_norms = self.gamma * norms
        loss = self._weight(batch.task) * ((1 - self.alpha) * labels + self.alpha * guidance) + loss_norms
        return {"loss": loss, "loss_labels": labels, "loss_guidance": guidance, "loss_norms": loss_norms}

    def _weight(self, task: str) -> float:
        """w_τ, mean 1 over the tasks."""
        if self.loss_temperature is None:
            return 1.0
        power = 1 / self.loss_temperature
        weights = {name: math.pow(t.num_train, power) for name, t in self.tasks.items()}
        return weights[task] * len(weights) / sum(weights.values())

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The hypernetwork with the tasks that it was tuned on and their embeddings."""
        tensors = dict(state)
        if self._embeddings is not None:
            tensors |= {f"{EMBEDDING}{task}": self._embeddings.tensors[task] for task in self.tasks}
        return Learngene(
            self.method,
            self.architecture,
            tensors,
            ancestor=self.ancestor or (self._embeddings.ancestor if self._embeddings else ""),
            hypernet=self.config.to_dict(),
            tasks={name: task.to_dict() for name, task in self.tasks.items()},
        )


def _config_of(start: str, architecture: Architecture) -> HypernetConfig:
    if not start.endswith(SUFFIX):
        raise UserError(f"model.start: expected a learngene file (*{SUFFIX}) of TAL, LoGAH or GHN-3, got {start}")
    learngene = Learngene.load(start)
    if learngene.hypernet is None:
        raise UserError(f"model.start: {start} is a learngene of {learngene.method}, not a hypernetwork")
    own, trained = (getattr(network, "vocab_size", None) for network in (architecture, learngene.architecture))
    if own != trained:
        read = ["images" if size is None else f"texts of {size} tokens" for size in (trained, own)]
        raise UserError(f"model.start: {start} was trained on {read[0]}, but model.arch reads {read[1]}")
    return read_config(learngene.hypernet, start)
