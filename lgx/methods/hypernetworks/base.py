"""What all hypernetworks share: training on random architectures, evaluating descendants without training."""

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
import torch
from lightning.pytorch.utilities.rank_zero import rank_zero_warn
from torch import Tensor, nn
from torch.optim import Optimizer

from lgx.architectures import Architecture, GPT2Architecture, ViTArchitecture, architecture_set, name_of, parse_like
from lgx.artifacts.learngene import Learngene
from lgx.components.checkpoint_checks import check_same_options, seed_of
from lgx.components.metrics import metrics_for
from lgx.core.batch import Batch, Task, shared_metric
from lgx.core.rows import Evaluation
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig
from lgx.hypernet.functional_forward import functional_forward
from lgx.hypernet.meta_batch import meta_batch_loss
from lgx.methods.base import Method


class HypernetMethod(Method):
    """Train a hypernetwork: each step predicts the parameters of random architectures and runs a batch through them.

    ``loss = (Σ CE + γ Σ ‖W‖_F) / m`` over the m architectures of a step (the same in GHN-3 and LoGAH): label
    smoothing in CE, ‖W‖_F the norm (not its square) of every predicted parameter. Architectures are drawn from (seed,
    step, rank), so that a resumed run draws the same. Every batch is of one task, whose number of classes the
    architectures take. Evaluation needs no training: every architecture of a fixed panel, held out of the set, is
    predicted for every task of the data module and tested.

    Of text models, whose vocabulary is larger than any ``max_shape``, the low-rank decoder repeats the rows of token
    embeddings in layout ``official``, as LoGAH's code does; in the others every token has a row of its own.

    Args:
        set: Architecture set to train on, ``ViTs-1K``, ``ViTs+-1K``, for text ``GPTs-1K``, or a ``.jsonl`` file that
            ``lgx sample`` wrote; ``arch`` gives image and patch size, or longest text and vocabulary.
        set_size: How many architectures are drawn from it; by default 1000, or all of a file.
        panel: Held-out architectures that validation evaluates.
        test_panel: Held-out architectures that the test evaluates; those of ``panel`` by default.
        meta_batch: Architectures per step and process, m.
        gamma: Weight γ of the norms.
        max_bad_steps: Updates with gradients that are not finite are skipped; so many in a row end the run.
            ``train/bad_steps`` counts them, from 0 again after a good one.
        width: Embedding width D.
        layers: Graphormer blocks.
        heads: Attention heads of the Graphormer.
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted; larger targets are tiled.
        attention_gain: Makes attention louder than what a token says of itself; 1 as published, 6 for short texts.
        kwargs: Arguments of every method.
    """

    decoder: Literal["conv", "low_rank"]
    reads_text = True
    evaluates_starts = True

    def __init__(
        self,
        set: str = "ViTs-1K",
        set_size: int | None = None,
        panel: tuple[str, ...] = ("3-Tiny", "6-Tiny", "12-Tiny"),
        test_panel: tuple[str, ...] | None = None,
        meta_batch: int = 1,
        gamma: float = 3e-5,
        max_bad_steps: int = 10,
        width: int = 128,
        layers: int = 5,
        heads: int = 16,
        max_shape: tuple[int, int, int, int] = (2048, 2048, 16, 16),
        attention_gain: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if meta_batch < 1:
            raise UserError(f"model.meta_batch: must be at least 1, got {meta_batch}")
        if max_bad_steps < 1:
            raise UserError(f"model.max_bad_steps: must be at least 1, got {max_bad_steps}")
        if gamma < 0:
            raise UserError(f"model.gamma: must not be negative, got {gamma}")
        if self.drop_rate:
            raise UserError(
                "model.drop_path_rate, model.dropout: predicted networks have neither stochastic depth nor dropout; "
                "leave them at 0"
            )
        base = self.architecture
        if isinstance(base, ViTArchitecture) and base.stages is not None:
            raise UserError("model.arch: hypernetworks predict no shared stages; leave out stages")
        tested = panel if test_panel is None else test_panel
        self.panels = {"val": _panel("panel", panel, base), "test": _panel("test_panel", tested, base)}
        held_out = {architecture for members in self.panels.values() for architecture in members}
        drawn: list[Architecture] = [*architecture_set(set, set_size, base)]
        self.set = [architecture for architecture in drawn if architecture not in held_out]
        if not self.set:
            raise UserError(f"model.set: {set} has no architecture beside those of model.panel")
        self.meta_batch, self.gamma, self.max_bad_steps = meta_batch, gamma, max_bad_steps
        self.bad_steps = 0
        self.config = HypernetConfig(
            width=width, layers=layers, heads=heads, max_shape=max_shape, num_classes=base.num_classes,
            decoder=self.decoder, attention_gain=attention_gain, **self.decoder_options(),
        )  # fmt: skip
        if isinstance(base, GPT2Architecture) and self.decoder == "low_rank" and self.config.layout != "official":
            self.config = replace(self.config, vocab_size=base.vocab_size)
        self._predicted: list[dict[str, Tensor]] = []
        self._predicted_for: tuple[str, str] | None = None

    def decoder_options(self) -> dict[str, Any]:
        """Options of the decoder beside ``max_shape``."""
        return {}

    @property
    def hypernet(self) -> Hypernet:
        """The network that is trained."""
        return cast(Hypernet, self.network)

    def set_tasks(self, tasks: dict[str, Task]) -> None:
        """Train and evaluate on these tasks, each by its name.

        Raises:
            UserError: If one is segmentation, or an architecture is too large for the hypernetwork.
        """
        pixels = [name for name, task in tasks.items() if task.kind == "segmentation"]
        if pixels:
            raise UserError(f"{self.method}: hypernetworks predict classifiers, but task {pixels[0]} is segmentation")
        self._check_sizes(max(task.num_classes for task in tasks.values()))
        self.tasks = tasks
        self.eval_metrics = nn.ModuleDict(
            {
                f"{split}_metrics_{t}_{i}": metrics_for(task)
                for split, panel in self.panels.items()
                for t, task in enumerate(self.tasks.values())
                for i in range(len(panel))
            }
        )

    def _check_sizes(self, classes: int) -> None:
        """Refuse now what a step may draw hours from now."""
        with torch.device("meta"):
            hypernet = Hypernet(self.config)
        options = (("set", self.set), ("panel", self.panels["val"]), ("test_panel", self.panels["test"]))
        for option, architectures in options:
            # Layers are alike, so one tells of all.
            for shallow, architecture in {a.replace(depth=1, num_classes=classes): a for a in architectures}.items():
                try:
                    hypernet.check(shallow)
                except UserError as error:
                    raise UserError(f"model.{option}: {name_of(architecture)}: {error}") from error

    def task_embedding(self, task: str) -> Tensor | None:
        """What the hypernetwork is told of a task, (T,); None for hypernetworks that are told nothing."""
        return None

    def build_network(self) -> nn.Module:
        """A randomly started hypernetwork."""
        return Hypernet(self.config)

    def forward(self, inputs: Tensor) -> Tensor:
        """A hypernetwork has no logits of its own.

        Raises:
            UserError: Always; ``lgx predict`` is what leads here.
        """
        raise UserError(
            f"{self.method}: a hypernetwork predicts parameters, not classes; write a descendant with `lgx init` first"
        )

    def draw(self, step: int, rank: int) -> list[Architecture]:
        """The architectures of a step."""
        words = np.random.SeedSequence((seed_of(), step, rank, 7)).generate_state(2)
        rng = random.Random(int(words[0]) << 32 | int(words[1]))
        return [rng.choice(self.set) for _ in range(self.meta_batch)]

    def draw_for(self, batch: Batch) -> list[Architecture]:
        """The architectures of the present step, with heads for the batch's task."""
        classes = self.tasks[batch.task].num_classes
        return [a.replace(num_classes=classes) for a in self.draw(self.global_step, self.global_rank)]

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss`` and its parts ``loss_labels`` and ``loss_norms``."""
        loss_labels, norms = meta_batch_loss(
            self.hypernet,
            self.draw_for(batch),
            batch.inputs,
            lambda logits: self.label_loss(logits, batch.targets),
            self.task_embedding(batch.task),
        )
        loss_norms = self.gamma * norms
        return {"loss": loss_labels + loss_norms, "loss_labels": loss_labels, "loss_norms": loss_norms}

    def on_before_optimizer_step(self, optimizer: Optimizer) -> None:
        """Skip an update whose gradients are not finite, on all ranks alike; end the run after too many in a row.

        Raises:
            UserError: After ``max_bad_steps`` such updates in a row.
        """
        gradients = [p.grad for p in self.parameters() if p.grad is not None]
        finite = bool(torch.stack(torch._foreach_norm(gradients)).isfinite().all())
        self.bad_steps = 0 if finite else self.bad_steps + 1
        self.log("train/bad_steps", float(self.bad_steps))
        if self.global_step % 100 == 99:
            self._warn_of_a_dead_decoder()
        if not finite:
            for parameter in self.parameters():
                parameter.grad = None
        if self.bad_steps >= self.max_bad_steps:
            raise UserError(
                f"{self.method}: {self.bad_steps} updates in a row had gradients that are not finite; lower the "
                f"learning rate, set trainer.gradient_clip_val, or use bf16 instead of fp16"
            )

    def _warn_of_a_dead_decoder(self) -> None:
        """Training looks sound without the encoder, but then every node, task and size gets the same matrices."""
        gradients = [p.grad for p in self.hypernet.encoder.parameters() if p.grad is not None]
        if gradients and not torch.stack(torch._foreach_norm(gradients)).any():
            rank_zero_warn(
                f"step {self.global_step}: no gradient reaches the hypernetwork's encoder, because all ReLUs of its "
                f"decoder are dead; it now predicts alike for every node and task. Start again with a lower "
                f"learning rate"
            )

    # -- evaluation without training ------------------------------------------------------------------------------

    def evaluations(self, split: str) -> list[Evaluation]:
        """Every architecture of the panel on every task, each under its own tags."""
        return [
            Evaluation(task, name_of(architecture), f"{self.tag(split, task)}/{name_of(architecture)}")
            for task in self.tasks
            for architecture in self.panels[split]
        ]

    def _evaluate(self, batch: Batch, split: Literal["val", "test"]) -> None:
        if self._predicted_for != (split, batch.task):  # the tasks come one after another
            self._predict_panel(split, batch.task)
        number, tag = list(self.tasks).index(batch.task), self.tag(split, batch.task)
        for i, (architecture, parameters) in enumerate(zip(self.panels[split], self._predicted, strict=True)):
            logits = functional_forward(architecture, parameters, batch.inputs).float()
            metrics = self._update(split, logits, batch.targets, f"_{number}_{i}")
            for name, metric in metrics.items():
                self.log(f"{tag}/{name_of(architecture)}/{name}", metric, on_step=False, on_epoch=True)

    def _predict_panel(self, split: str, task: str) -> None:
        classes, embedding = self.tasks[task].num_classes, self.task_embedding(task)
        self._predicted = []  # never two panels of dense weights in memory
        with torch.no_grad():
            for architecture in self.panels[split]:
                descendant = architecture.replace(num_classes=classes)
                self._predicted.append(self.hypernet.predict(descendant, embedding))
        self._predicted_for = (split, task)

    def on_validation_epoch_start(self) -> None:
        """Predict anew: the hypernetwork has learned since."""
        self._predicted_for = None

    def on_test_epoch_start(self) -> None:
        """Predict anew: another checkpoint may have been loaded."""
        self._predicted_for = None

    def on_validation_epoch_end(self) -> None:
        """Mean over tasks and panel, the score by which the best checkpoint is chosen."""
        self._log_means("val")

    def on_test_epoch_end(self) -> None:
        """Mean over tasks and panel."""
        self._log_means("test")

    def _log_means(self, split: str) -> None:
        self._predicted, self._predicted_for = [], None  # dense weights, which training does without
        means = []
        for number, (name, task) in enumerate(self.tasks.items()):
            metrics = [self.metrics_of(split, f"_{number}_{i}") for i in range(len(self.panels[split]))]
            means.append(torch.stack([m[task.metric].compute() for m in metrics]).mean())
            if len(self.tasks) > 1:
                self.log(f"{self.tag(split, name)}/{task.metric}", means[-1])
        self.log(f"{split}/{shared_metric(self.tasks.values())}", torch.stack(means).mean(), prog_bar=True)

    def describe(self) -> dict[str, Any]:
        """See :class:`Method`; with the hypernetwork's configuration."""
        return {**super().describe(), "hypernet": self.config.to_dict()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """See :class:`Method`.

        Raises:
            UserError: If the checkpoint is of another configuration; the sentence names what differs.
        """
        super().on_load_checkpoint(checkpoint)
        check_same_options("a hypernetwork", checkpoint["lgx"].get("hypernet", {}), self.config.to_dict())

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The hypernetwork."""
        return Learngene(self.method, self.architecture, dict(state), hypernet=self.config.to_dict())


def _panel(option: str, texts: tuple[str, ...], base: Architecture) -> list[Architecture]:
    """A panel's architectures, for the inputs of the base."""
    members: list[Architecture] = []
    for text in texts:
        try:
            member = parse_like(text, base)
        except UserError as error:
            raise UserError(f"model.{option}: {error}") from error
        what, one, other = ("texts", "max_len", "vocab_size")
        if isinstance(base, ViTArchitecture):
            what, one, other = ("images", "img_size", "in_chans")
        if any(getattr(member, key) != getattr(base, key) for key in (one, other)):
            raise UserError(f"model.{option}: {text} takes other {what} than model.arch; leave out {one} and {other}")
        members.append(member)
    if not members or len({name_of(member) for member in members}) < len(members):
        raise UserError(f"model.{option}: give at least one architecture to evaluate, and each but once")
    return members
