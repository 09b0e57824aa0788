"""GHN-3 and LoGAH: training a hypernetwork on random architectures."""

import random
from collections.abc import Mapping
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lgx.architectures import ViTArchitecture, architecture_set, parse_architecture
from lgx.batch import Batch
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig
from lgx.hypernet.lowrank import execute
from lgx.hypernet.lowrank_decoder import Layout
from lgx.hypernet.meta import meta_losses
from lgx.learngene import Learngene
from lgx.methods.base import Method, seed_of


class HypernetMethod(Method):
    """Train a hypernetwork: each step predicts the parameters of random architectures and runs images through them.

    ``loss = (Σ CE + γ Σ ‖W‖_F) / m`` over the m architectures of a step (the same in GHN-3 and LoGAH): label
    smoothing in CE, ‖W‖_F the norm (not its square) of every predicted parameter. Architectures are drawn from (seed,
    step, rank), so that a resumed run draws the same. Evaluation needs no training: every architecture of a fixed
    panel, held out of the set, is predicted once and tested.

    Args:
        set: Architecture set to train on, ``ViTs-1K``, ``ViTs+-1K`` or a ``.jsonl`` file that ``lgx sample`` wrote;
            ``arch`` gives image and patch size.
        set_size: How many architectures are drawn from it; by default 1000, or all of a file.
        panel: Held-out architectures that validation and test evaluate.
        meta_batch: Architectures per step and process, m.
        gamma: Weight γ of the norms.
        max_bad_steps: Updates with gradients that are not finite are skipped; so many in a row end the run.
            ``train/bad_steps`` counts them, from 0 again after a good one.
        width: Embedding width D.
        layers: Graphormer blocks.
        heads: Attention heads of the Graphormer.
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted; larger targets are tiled.
        kwargs: Arguments of every method.
    """

    decoder: Literal["conv", "low_rank"]
    evaluates_starts = True

    def __init__(
        self,
        set: str = "ViTs-1K",
        set_size: int | None = None,
        panel: tuple[str, ...] = ("3-Tiny", "6-Tiny", "12-Tiny"),
        meta_batch: int = 1,
        gamma: float = 3e-5,
        max_bad_steps: int = 10,
        width: int = 128,
        layers: int = 5,
        heads: int = 16,
        max_shape: tuple[int, int, int, int] = (2048, 2048, 16, 16),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if meta_batch < 1:
            raise UserError(f"model.meta_batch: must be at least 1, got {meta_batch}")
        if max_bad_steps < 1:
            raise UserError(f"model.max_bad_steps: must be at least 1, got {max_bad_steps}")
        if gamma < 0:
            raise UserError(f"model.gamma: must not be negative, got {gamma}")
        if self.drop_path_rate:
            raise UserError("model.drop_path_rate: predicted networks have no stochastic depth; leave it at 0")
        base = self.architecture
        if base.stages is not None:
            raise UserError("model.arch: hypernetworks predict no shared stages; leave out stages")
        self.panel = [_panel_member(text, base) for text in panel]
        if not panel or len({architecture.name for architecture in self.panel}) < len(panel):
            raise UserError("model.panel: give at least one architecture to evaluate, and each but once")
        drawn = architecture_set(set, set_size, base)
        self.set = [architecture for architecture in drawn if architecture not in self.panel]
        if not self.set:
            raise UserError(f"model.set: {set} has no architecture beside those of model.panel")
        self.meta_batch, self.gamma, self.max_bad_steps = meta_batch, gamma, max_bad_steps
        self.bad_steps = 0
        self.config = HypernetConfig(
            width=width, layers=layers, heads=heads, max_shape=max_shape, num_classes=base.num_classes,
            decoder=self.decoder, **self.decoder_options(),
        )  # fmt: skip
        self.eval_metrics = nn.ModuleDict(
            {f"{split}_metrics_{i}": self._make_metrics() for split in ("val", "test") for i in range(len(self.panel))}
        )
        self._predicted: list[dict[str, Tensor]] = []

    def decoder_options(self) -> dict[str, Any]:
        """Options of the decoder beside ``max_shape``."""
        return {}

    @property
    def hypernet(self) -> Hypernet:
        """The network that is trained."""
        return cast(Hypernet, self.network)

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

    def draw(self, step: int, rank: int) -> list[ViTArchitecture]:
        """The architectures of a step."""
        words = np.random.SeedSequence((seed_of(), step, rank, 7)).generate_state(2)
        rng = random.Random(int(words[0]) << 32 | int(words[1]))
        return [rng.choice(self.set) for _ in range(self.meta_batch)]

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss`` and its parts ``loss_labels`` and ``loss_norms``."""
        architectures = self.draw(self.global_step, self.global_rank)
        loss_labels, norms = meta_losses(
            self.hypernet, architectures, batch.inputs, lambda logits: self.label_loss(logits, batch.targets)
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
        if not finite:
            for parameter in self.parameters():
                parameter.grad = None
        if self.bad_steps >= self.max_bad_steps:
            raise UserError(
                f"{self.method}: {self.bad_steps} updates in a row had gradients that are not finite; lower the "
                f"learning rate, set trainer.gradient_clip_val, or use bf16 instead of fp16"
            )

    # -- evaluation without training ------------------------------------------------------------------------------

    def evaluations(self, split: str) -> dict[str, str]:
        """The panel's architectures, each under its own tags."""
        return {architecture.name: f"{split}/{architecture.name}" for architecture in self.panel}

    def on_validation_epoch_start(self) -> None:
        """Predict the panel once."""
        self._predict_panel()

    def on_test_epoch_start(self) -> None:
        """Predict the panel once."""
        self._predict_panel()

    def _predict_panel(self) -> None:
        with torch.no_grad():
            self._predicted = [self.hypernet.predict(architecture) for architecture in self.panel]

    def _evaluate(self, batch: Batch, split: Literal["val", "test"]) -> None:
        for i, (architecture, parameters) in enumerate(zip(self.panel, self._predicted, strict=True)):
            logits = execute(architecture, parameters, batch.inputs).float()
            metrics = self._update(split, logits, batch.targets, f"_{i}")
            for name, metric in metrics.items():
                self.log(f"{split}/{architecture.name}/{name}", metric, on_step=False, on_epoch=True)

    def on_validation_epoch_end(self) -> None:
        """Mean accuracy over the panel, the score by which the best checkpoint is chosen."""
        self._predicted = []  # dense weights, which training does without
        self._log_mean("val")

    def on_test_epoch_end(self) -> None:
        """Mean accuracy over the panel."""
        self._predicted = []
        self._log_mean("test")

    def _log_mean(self, split: str) -> None:
        metrics = [self.metrics_of(split, f"_{i}") for i in range(len(self.panel))]
        self.log(f"{split}/acc", torch.stack([m["acc"].compute() for m in metrics]).mean(), prog_bar=True)

    def describe(self) -> dict[str, Any]:
        """See :class:`Method`; with the hypernetwork's configuration."""
        return {**super().describe(), "hypernet": self.config.to_dict()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """See :class:`Method`.

        Raises:
            UserError: If the checkpoint is of another configuration; the sentence names what differs.
        """
        super().on_load_checkpoint(checkpoint)
        stored, ours = checkpoint["lgx"].get("hypernet", {}), self.config.to_dict()
        differ = [
            f"{key} {stored.get(key)} instead of {value}" for key, value in ours.items() if stored.get(key) != value
        ]
        if differ:
            raise UserError(f"--ckpt_path: holds a hypernetwork of another configuration: {', '.join(differ)}")

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The hypernetwork."""
        return Learngene(self.method, self.architecture, dict(state), hypernet=self.config.to_dict())


def _panel_member(text: str, base: ViTArchitecture) -> ViTArchitecture:
    """A panel's architecture; image and patch size and channels are the base's unless the text names them."""
    keys = ("img_size", "patch_size", "in_chans")
    shared = {key: getattr(base, key) for key in keys if f"{key}=" not in text}
    member = parse_architecture(text, num_classes=base.num_classes, **shared)
    if (member.img_size, member.in_chans) != (base.img_size, base.in_chans):
        raise UserError(f"model.panel: {text} takes other images than model.arch; leave out img_size and in_chans")
    return member


class GHN3(HypernetMethod):
    """GHN-3: convolutional decoder of dense weights (Knyazev et al., 2023).

    Args:
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted; larger targets are tiled. The
            decoder has 8 D × out × in parameters for it: 64 channels as released, where LoGAH can afford 2048.
        kwargs: Arguments of ``HypernetMethod`` and of every method.
    """

    decoder = "conv"

    def __init__(self, max_shape: tuple[int, int, int, int] = (64, 64, 16, 16), **kwargs: Any) -> None:
        super().__init__(max_shape=max_shape, **kwargs)

    @property
    def method(self) -> str:
        """``ghn3``."""
        return "ghn3"


class LoGAH(HypernetMethod):
    """LoGAH: low-rank decoder, executed without forming the weights (Zhou et al., 2024).

    Args:
        rank: Rank r of every predicted weight.
        max_size: Largest number of rows or columns.
        layout: Layout of the factors; ``official`` is what "LoGAH" means in the papers' tables.
        kwargs: Arguments of ``HypernetMethod`` and of every method.
    """

    decoder = "low_rank"

    def __init__(self, rank: int = 90, max_size: int = 32768, layout: Layout = "official", **kwargs: Any) -> None:
        self._options = {"rank": rank, "max_size": max_size, "layout": layout}
        super().__init__(**kwargs)

    def decoder_options(self) -> dict[str, Any]:
        """Rank, size and layout."""
        return self._options

    @property
    def method(self) -> str:
        """``logah``, or ``logah_residual`` for the other layout."""
        return "logah" if self.config.layout == "official" else "logah_residual"
