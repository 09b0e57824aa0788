"""Training of hypernetworks on random architectures: the base of GHN-3, LoGAH and TAL."""

import random
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from lgx.architectures import Architecture, HFArchitecture, architecture_set, name_of
from lgx.architectures.building import building_on
from lgx.artifacts.learngene import Learngene
from lgx.components.metrics import metrics_for
from lgx.core.batch import Batch
from lgx.core.schema import check_option
from lgx.core.seed import run_seed
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig, Layout, meta_batch_loss
from lgx.methods import hypernetworks as specs
from lgx.methods.hypernetworks.initializer import method_of
from lgx.methods.hypernetworks.panel_evaluation import PanelEvaluation


class HypernetMethod(PanelEvaluation):
    """Train a hypernetwork: each step predicts the parameters of random architectures and runs a batch through them.

    ``loss = (Σ CE + γ Σ ‖W‖_F) / m`` over the m architectures of a step, as in GHN-3 and LoGAH. CE has label smoothing;
    ‖W‖_F is the norm (not its square) of every predicted parameter. The seed of the draw is (seed, step, rank), so that
    a resumed run draws the same architectures. Every batch is of one task, and the architectures have heads for its
    classes. Evaluation needs no training: the hypernetwork predicts every architecture of a fixed panel, which is held
    out of the set, for every task of the data module.

    The vocabulary of a text model is larger than any ``max_shape``. In layout ``official``, the low-rank decoder
    repeats rows of the token embedding, as LoGAH's code does. In the other layouts, every token has its own row.

    Args:
        set: Architecture set to train on, ``ViTs-1K``, ``ViTs+-1K``, for text ``GPTs-1K`` or ``LLAMAs-1K``, or a
            ``.jsonl`` file with an architecture in each line. ``arch`` gives image and patch size, or type, longest
            text and vocabulary.
        set_size: Number of architectures of the set; by default 1000, or all of a file.
        panel: Held-out architectures that validation evaluates.
        test_panel: Held-out architectures that the test evaluates; by default ``panel``.
        meta_batch: Architectures per step and process, m.
        gamma: Weight γ of the norms.
        width: Embedding width D.
        layers: Graphormer blocks.
        heads: Attention heads of the Graphormer.
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted; larger targets are tiled.
        attention_gain: Factor on the contribution of attention in predicted networks, relative to the other
            contributions; 1 as published, 6 for short texts.
        kwargs: Arguments of every method.
    """

    decoder: Literal["conv", "low_rank"]

    def __init__(
        self,
        set: str = "ViTs-1K",
        set_size: int | None = None,
        panel: tuple[str, ...] = ("3-Tiny", "6-Tiny", "12-Tiny"),
        test_panel: tuple[str, ...] | None = None,
        meta_batch: int = 1,
        gamma: float = 3e-5,
        width: int = 128,
        layers: int = 5,
        heads: int = 16,
        max_shape: tuple[int, int, int, int] = (2048, 2048, 16, 16),
        attention_gain: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_option("meta_batch", meta_batch, meta_batch >= 1, "at least 1")
        check_option("gamma", gamma, gamma >= 0, "at least 0")
        if self.drop_rate:
            raise UserError(
                "model.drop_path_rate, model.dropout: predicted networks have neither stochastic depth nor dropout; "
                "leave them at 0"
            )
        self._set, self._set_size = set, set_size
        self.panel = panel
        self.test_panel = panel if test_panel is None else test_panel
        self.meta_batch, self.gamma = meta_batch, gamma
        self.decoder_options: dict[str, Any] = {}  # beside max_shape
        self._config_options: dict[str, Any] = {
            "width": width, "layers": layers, "heads": heads, "max_shape": max_shape, "attention_gain": attention_gain,
        }  # fmt: skip

    @cached_property
    def architecture(self) -> Architecture:
        """The base of all architectures of the set: the size of their inputs."""
        base: Architecture = self.parsed_architecture
        if base.shares_layers:
            raise UserError("model.arch: hypernetworks do not predict shared stages; leave out stages")
        return base

    @cached_property
    def set(self) -> list[Architecture]:
        """The architectures that training draws from."""
        held_out = {*chain(*self.panels.values())}
        drawn: list[Architecture] = [*architecture_set(self._set, self._set_size, self.architecture)]
        left = [architecture for architecture in drawn if architecture not in held_out]
        if not left:
            raise UserError(
                f"model.set: {self._set} has no architectures besides those of model.panel; use another set or panel"
            )
        return left

    @property
    def varying_graph(self) -> bool:
        """Networks for text have no bias of the head, so a part of this decoder is unused."""
        return self.parsed_architecture.reads_text and self.config.decoder == "conv"

    @cached_property
    def trained_widths(self) -> tuple[int, ...]:
        """Widths of the networks that the hypernetwork is trained on."""
        return tuple(sorted({architecture.embed_dim for architecture in self.set}))

    @cached_property
    def config(self) -> HypernetConfig:
        """The hypernetwork's configuration, which the constructor's arguments describe."""
        base = self.architecture
        config = HypernetConfig(
            num_classes=base.num_classes, decoder=self.decoder, **self._config_options, **self.decoder_options
        )
        if isinstance(base, HFArchitecture) and self.decoder == "low_rank" and config.layout != "official":
            config = replace(config, vocab_size=base.vocab_size)
        return config

    def set_tasks(self, tasks: dict[str, Task]) -> None:
        """Train and evaluate on these tasks, each by its name."""
        pixels = [name for name, task in tasks.items() if task.kind == "segmentation"]
        if pixels:
            raise UserError(f"{self.method}: hypernetworks predict classifiers, but task {pixels[0]} is segmentation")
        classes = {task.num_classes for task in tasks.values()}
        if self.mix is not None and len(classes) > 1:
            raise UserError(
                "model.mixup, model.cutmix: need tasks with the same number of classes, but the tasks have "
                f"{' and '.join(map(str, sorted(classes)))}; leave both at 0"
            )
        self._check_sizes(max(classes))
        self.tasks = tasks
        self.eval_metrics = nn.ModuleDict()
        for split, panel in self.panels.items():
            for number, task in enumerate(self.tasks.values()):
                for member in range(len(panel)):
                    self.eval_metrics[f"{split}_metrics_{number}_{member}"] = metrics_for(task, split)

    def _check_sizes(self, classes: int) -> None:
        """Check all architectures before training, because any step may draw them."""
        config = self.config  # first: it may contain tensors, which must not be on the meta device
        with building_on("meta"):
            hypernet = Hypernet(config)
        options = (("set", self.set), ("panel", self.panels["val"]), ("test_panel", self.panels["test"]))
        for option, architectures in options:
            # All layers of an architecture have the same shapes: one layer is enough.
            for shallow, architecture in {a.replace(depth=1, num_classes=classes): a for a in architectures}.items():
                try:
                    hypernet.check(shallow)
                except UserError as error:
                    raise UserError(f"model.{option}: {name_of(architecture)}: {error}") from error

    def build_network(self) -> nn.Module:
        """A randomly started hypernetwork."""
        return Hypernet(self.config)

    def forward(self, inputs: Tensor) -> Tensor:
        """Refused: a hypernetwork has no logits for inputs (B, ...)."""
        raise UserError(
            f"{self.method}: a hypernetwork predicts parameters, not classes; write a descendant with `lgx init` first"
        )

    def draw(self, step: int, rank: int) -> list[Architecture]:
        """The architectures of a step."""
        # The 7 keeps this draw apart from other draws with the same seed, step and rank; a stored run depends on it.
        words = np.random.SeedSequence((run_seed(), step, rank, 7)).generate_state(2)
        rng = random.Random(int(words[0]) << 32 | int(words[1]))
        return [rng.choice(self.set) for _ in range(self.meta_batch)]

    def draw_for(self, batch: Batch) -> list[Architecture]:
        """The architectures of the current step, with heads for the batch's task."""
        classes = self.tasks[batch.task].num_classes
        return [a.replace(num_classes=classes) for a in self.draw(self.global_step, self.global_rank)]

    def on_train_batch_start(self, batch: Batch, batch_idx: int) -> None:
        """Draw the architectures of the step."""
        super().on_train_batch_start(batch, batch_idx)
        self.drawn = self.draw_for(batch)

    def training_losses(self, batch: Batch) -> dict[str, Tensor]:
        """``loss`` and its parts ``loss_labels`` and ``loss_norms``."""
        loss_labels, norms = meta_batch_loss(
            self.hypernet,
            self.draw_for(batch),
            batch.inputs,
            lambda logits, _: self.label_loss(logits, batch.targets),
            self.task_embedding(batch.task),
        )
        loss_norms = self.gamma * norms
        return {"loss": loss_labels + loss_norms, "loss_labels": loss_labels, "loss_norms": loss_norms}

    def describe(self) -> dict[str, Any]:
        """See :class:`Method`; with the hypernetwork's configuration."""
        return {**super().describe(), "hypernet": self.config.to_dict()}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """See :class:`Method`."""
        super().on_load_checkpoint(checkpoint)
        stored = checkpoint["lgx"].get("hypernet", {})
        now = self.config.to_dict()
        differ = [f"{key} {stored.get(key)}, not {now[key]}" for key in now if stored.get(key) != now[key]]
        if differ:
            raise UserError(
                f"--ckpt_path: contains a hypernetwork with other options: {', '.join(differ)}; give the same options"
            )

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """The hypernetwork."""
        config = self.config.to_dict()
        return Learngene(
            self.method, self.architecture, dict(state), hypernet=config, trained_widths=self.trained_widths
        )


class GHN3(HypernetMethod):
    """GHN-3: convolutional decoder of dense weights [0].

    [0]: Knyazev et al., "Can We Scale Transformers to Predict Parameters of Diverse ImageNet Models?", ICML 2023,
    https://arxiv.org/abs/2303.04143

    Args:
        max_shape: Largest (out, in, kernel height, kernel width) that is predicted; larger targets are tiled. The
            decoder has 8 D × out × in parameters for it. By default (D, D, 16, 16), as in the released code: GHN-3-T
            has D = 64 and GHN-3-S has 128; LoGAH supports 2048.
        width: Embedding width D.
        kwargs: Arguments of ``HypernetMethod`` and of every method.
    """

    spec = specs.GHN3
    decoder = "conv"

    def __init__(self, max_shape: tuple[int, int, int, int] | None = None, width: int = 128, **kwargs: Any) -> None:
        super().__init__(max_shape=max_shape or (width, width, 16, 16), width=width, **kwargs)


class LoGAH(HypernetMethod):
    """LoGAH: low-rank decoder, executed without forming the weights [0].

    [0]: Zhou et al., "LoGAH: Predicting 774-Million-Parameter Transformers using Graph HyperNetworks with 1/100
    Parameters", 2024, https://arxiv.org/abs/2405.16287

    Args:
        rank: Rank r of every predicted weight.
        max_size: Largest number of rows or columns.
        layout: Layout of the factors; ``official`` is what "LoGAH" means in the papers' tables.
        kwargs: Arguments of ``HypernetMethod`` and of every method.
    """

    spec = specs.LOGAH
    decoder = "low_rank"

    def __init__(self, rank: int = 90, max_size: int = 32768, layout: Layout = "official", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.decoder_options = {"rank": rank, "max_size": max_size, "layout": layout}

    @property
    def method(self) -> str:
        """``logah``, or ``logah_aligned`` for that layout."""
        return method_of(self.config)
