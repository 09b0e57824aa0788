"""The GPT-2 family: classifiers of texts and language models, built with transformers."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from lgx.architectures.axes import Axes
from lgx.architectures.base import Architecture, register_family
from lgx.architectures.hf import HFArchitecture
from lgx.core.task import Kind, Task


@dataclass(frozen=True)
class GPT2Architecture(Architecture):
    """GPT-2 with a classification head on a text's last token, or as language model, under transformers' names.

    Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; transformers'
    ``GPT2ForSequenceClassification`` and ``GPT2LMHeadModel``. The heads have no bias.

    Attributes:
        depth: Number of transformer layers L.
        embed_dim: Width d.
        num_heads: Attention heads; must divide ``embed_dim``.
        mlp_ratio: Hidden width of the MLP divided by ``embed_dim``; 4 in every published GPT-2.
        max_len: Longest text, in tokens: rows of the position embedding.
        vocab_size: Tokens, V. The last one, GPT-2's ``<|endoftext|>``, pads.
        num_classes: Outputs of the head, K; of a language model the tokens.
        stages: Numbers of layers that share one set of weights, see :class:`~lgx.architectures.base.Architecture`.
        kind: What the head predicts: the class of a text, or for ``language`` the next token.
    """

    depth: int = 12
    embed_dim: int = 768
    num_heads: int = 12
    max_len: int = 1024
    vocab_size: int = 50257
    num_classes: int = 2
    kind: Kind = "text"
    family: ClassVar = "gpt2"
    label: ClassVar = "GPT-2"
    example: ClassVar = "6-GPT2"
    kinds: ClassVar = ("text", "language")
    layers: ClassVar = "transformer.h."
    limits: ClassVar = {"depth": 1000, "embed_dim": 65_536, "num_heads": 65_536, "max_len": 2**20}
    input_keys: ClassVar = ("max_len", "vocab_size")
    shared_keys: ClassVar = input_keys
    source_sizes: ClassVar = "embed_dim and vocab_size, and at most the max_len"
    equal_layers: ClassVar = True

    @property
    def head(self) -> str:  # type: ignore[override]
        """Prefix of the names of the head's parameters; the head of a language model is the token embedding."""
        return "score." if self.kind == "text" else "lm_head."

    @property
    def as_hf(self) -> HFArchitecture:
        """The same network in the family ``hf``."""
        sizes = self.depth, self.embed_dim, self.num_heads, self.mlp_ratio
        of_task: dict[str, Any] = {key: getattr(self, key) for key in ("max_len", "vocab_size", "num_classes", "kind")}
        return HFArchitecture(*sizes, **of_task, pad_id=self.pad_id, form="gpt2", stages=self.stages)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only; without the usual values of what older files lack."""
        usual = {"mlp_ratio": 4.0, "kind": "text", "stages": None}
        return {key: value for key, value in super().to_dict().items() if usual.get(key, "") != value}

    def inherited(self, text: str) -> dict[str, Any]:
        """All values but depth, width and heads."""
        return {key: getattr(self, key) for key in ("mlp_ratio", *self.input_keys) if f"{key}=" not in text}

    def axes_of_one_layer(self) -> Mapping[str, Axes]:
        """See :class:`~lgx.architectures.base.Architecture`."""
        return self.as_hf.axes_of_one_layer()

    @property
    def pad_id(self) -> int:
        """The token that pads shorter texts; no text contains it."""
        return self.vocab_size - 1

    def check_inputs(self, task: Task, owner: str) -> None:
        """Refuse a text task whose token ids mean something else or whose texts are too long."""
        self.as_hf.check_inputs(task, owner)

    def check_source(self, source: Architecture, method: str) -> None:
        """Refuse a network of another form."""
        self.as_hf.check_source(source, method)

    def fit_input_sizes(self, tensors: Mapping[str, Tensor], source: Architecture | None) -> dict[str, Tensor]:
        """Leave out rows of the position embedding beyond ``max_len``, and the head of another kind of network."""
        return self.as_hf.fit_input_sizes(tensors, source)

    def build(self, device: str | None = None, drop_rate: float = 0.0) -> nn.Module:
        """Build the model with transformers' own random initialization.

        The share ``drop_rate`` of embeddings, attention weights and residual updates is dropped; 0.1 in GPT-2.

        Returns:
            The model, token ids (B, N), int64, padded on the right with :attr:`pad_id` -> logits (B, K), or (B, N, V).
        """
        return self.as_hf.build(device, drop_rate)

    def example_input(self, device: str = "meta") -> Tensor:
        """One text of ``max_len`` tokens, int64, (1, N)."""
        return torch.empty(1, self.max_len, dtype=torch.long, device=device)


GPT2_NAMES: dict[str, GPT2Architecture] = {f"{depth}-GPT2": GPT2Architecture(depth) for depth in range(1, 25)}
"""``3-GPT2`` (TAL): GPT-2 small, 768 wide with 12 heads, at any depth. 1024 tokens, 2 classes."""


def as_gpt2(network: HFArchitecture) -> Architecture:
    """A network of transformers as GPT-2, if it is one and pads as published; else the network itself."""
    if network.form != GPT2Architecture.family:
        return network
    found = GPT2Architecture(**{field.name: getattr(network, field.name) for field in fields(GPT2Architecture)})
    return found if found.as_hf == network else network


register_family(GPT2Architecture, GPT2_NAMES)
