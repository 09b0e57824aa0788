"""GPT-2 text classifiers: description, transformers model, parameter and MAC counts."""

from dataclasses import asdict, dataclass, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch.utils.flop_counter import FlopCounterMode

from lgx.core.batch import Kind, Task
from lgx.core.extras import nlp_extra
from lgx.core.schema import shortened
from lgx.errors import UserError

if TYPE_CHECKING:
    from lgx.architectures.gpt2_model import GPT2Classifier

FAMILY = "gpt2"
LARGEST = {
    "depth": 1000, "embed_dim": 65_536, "num_heads": 65_536, "max_len": 2**20, "vocab_size": 2**24,
    "num_classes": 1_000_000,
}  # fmt: skip
"""Sizes beyond all use, which would take all time or memory: an architecture may come from a file of others."""


@dataclass(frozen=True)
class GPT2Architecture:
    """GPT-2 with a classification head on a text's last token, under transformers' parameter names.

    Radford et al., "Language Models are Unsupervised Multitask Learners", 2019; transformers'
    ``GPT2ForSequenceClassification``. The MLP is 4 ``embed_dim`` wide, as in every GPT-2; the head has no bias.

    Attributes:
        depth: Number of transformer layers L.
        embed_dim: Width d.
        num_heads: Attention heads; must divide ``embed_dim``.
        max_len: Longest text, in tokens: rows of the position embedding.
        vocab_size: Tokens, V. The last one, GPT-2's ``<|endoftext|>``, pads.
        num_classes: Outputs of the head, K.
        kind: What the head predicts: the class of a text.
        head: How the names of the head's parameters begin.
        layers: How those of the layers begin, before their numbers.

    Raises:
        UserError: If a value is no positive whole number or ``num_heads`` does not divide ``embed_dim``.
    """

    depth: int = 12
    embed_dim: int = 768
    num_heads: int = 12
    max_len: int = 1024
    vocab_size: int = 50257
    num_classes: int = 2
    kind: ClassVar[Kind] = "text"
    head: ClassVar[str] = "score."
    layers: ClassVar[str] = "transformer.h."

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if type(value) is not int:
                raise UserError(f"architecture: {field.name} must be a whole number, got {shortened(value)}")
            if value <= 0:
                raise UserError(f"architecture: {field.name} must be positive, got {value}")
            if value > LARGEST[field.name]:
                most = LARGEST[field.name]
                raise UserError(f"architecture: {field.name} must be at most {most:,}, got {shortened(value)}")
        if self.vocab_size < 2:
            raise UserError("architecture: vocab_size must be at least 2: one token is the padding")
        if self.embed_dim % self.num_heads:
            raise UserError(
                f"architecture: num_heads {self.num_heads} does not divide embed_dim {self.embed_dim}; "
                f"choose one that does"
            )

    @property
    def pad_id(self) -> int:
        """The token that fills shorter texts up; it stands in no text."""
        return self.vocab_size - 1

    @property
    def name(self) -> str:
        """TAL's name where there is one (``6-GPT2``), else the spec that :meth:`spec` gives."""
        from lgx.architectures.names import gpt2_name_of

        return gpt2_name_of(self) or self.spec()

    def spec(self) -> str:
        """``gpt2:depth=6,embed_dim=192,...``: what differs from the defaults, readable by ``parse_any_architecture``.

        Depth, embed_dim and num_heads are always named; ``num_classes`` never, it belongs to the task.
        """
        default = GPT2Architecture()
        named = [
            field.name
            for field in fields(self)
            if field.name in ("depth", "embed_dim", "num_heads")
            or (field.name != "num_classes" and getattr(self, field.name) != getattr(default, field.name))
        ]
        return f"{FAMILY}:" + ",".join(f"{name}={getattr(self, name)}" for name in named)

    def replace(self, **changes: Any) -> "GPT2Architecture":
        """A copy with some values changed."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, for JSON and checkpoints; ``family`` tells it from an image model."""
        return {"family": FAMILY, **asdict(self)}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> "GPT2Architecture":
        """Inverse of :meth:`to_dict`.

        Raises:
            UserError: If a key is unknown.
        """
        values = {key: value for key, value in values.items() if (key, value) != ("family", FAMILY)}
        unknown = set(values) - {field.name for field in fields(cls)}
        if unknown:
            known = ", ".join(field.name for field in fields(cls))
            raise UserError(f"architecture: unknown key(s) {', '.join(sorted(unknown))[:200]}; known are {known}")
        return cls(**values)

    def check_texts(self, task: Task, what: str) -> None:
        """Refuse a text task whose token ids would mean something else, or be too many.

        Args:
            task: The task.
            what: What has this architecture, for the message.

        Raises:
            UserError: If the vocabularies differ in size, or texts may be longer than ``max_len``.
        """
        if self.vocab_size != task.vocab_size or self.max_len < task.max_len:
            raise UserError(
                f"{what}: knows {self.vocab_size} tokens, in texts of up to {self.max_len}, but task {task.name} has "
                f"{task.vocab_size}, in texts of up to {task.max_len}; write an architecture with "
                f"max_len={task.max_len},vocab_size={task.vocab_size}, or set data.max_len and data.vocab_size"
            )

    def check_task(self, task: Task, what: str) -> None:
        """Refuse a task whose texts (:meth:`check_texts`) or number of classes are other than the network's.

        Args:
            task: The task.
            what: What has this architecture, for the message.

        Raises:
            UserError: If vocabulary or number of classes differ, or texts may be longer than ``max_len``.
        """
        self.check_texts(task, what)
        if self.num_classes != task.num_classes:
            raise UserError(f"{what}: has {self.num_classes} classes, but task {task.name} has {task.num_classes}")

    def build(self, device: str | None = None, dropout: float = 0.0) -> "GPT2Classifier":
        """Build the model, with transformers' own random start.

        Args:
            device: ``meta`` builds shapes without memory.
            dropout: Share dropped of embeddings, attention weights and residual updates; 0.1 in GPT-2.

        Returns:
            The model, token ids (B, N), int64, padded on the right with :attr:`pad_id` -> logits (B, K).

        Raises:
            UserError: If transformers is not installed.
        """
        with nlp_extra(f"architecture {self.name}"):
            from lgx.architectures.gpt2_model import GPT2Classifier, gpt2_config
        with torch.device(device or "cpu"):
            return GPT2Classifier(gpt2_config(self, dropout))

    def count_parameters(self) -> int:
        """Number of parameters."""
        return sum(p.numel() for p in self.build("meta").parameters())

    def count_macs(self) -> int:
        """Multiply-accumulates of the forward pass of one text of ``max_len`` tokens, attention products included."""
        model = self.build("meta").eval()
        ids = torch.empty(1, self.max_len, dtype=torch.long, device="meta")
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            model(ids)
        return int(counter.get_total_flops()) // 2
