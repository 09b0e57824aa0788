"""The family of transformers' networks of texts: decoders such as Llama and GPT-2, encoders such as BERT."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from huggingface_hub import hf_hub_download
from torch import Tensor, nn

from lgx.architectures.axes import Axes
from lgx.architectures.base import Architecture, name_of, register_family
from lgx.architectures.building import building_on
from lgx.core.schema import CLASSES, MAPPING, Field, at_most, check_fields
from lgx.core.task import TEXTS, Kind, Task
from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.failures import foreign_errors
from lgx.host.hub import hub_or_cache
from lgx.host.safety import read_json

if TYPE_CHECKING:
    from lgx.architectures.hf_structure import Structure

_SIZE = at_most(65_536, 0)
_FIELDS = {
    "head_dim": _SIZE,
    "pad_id": at_most(2**24, 0),
    "form": Field(lambda value: type(value) is str and bool(value), "the type of a model of transformers"),
}
_OF_SOURCE = ("heads_per_group", "head_dim", "mlp_ratio", "max_len", "vocab_size", "pad_id", "form")
"""Values of a descendant that come from its source, unless its specification names them."""


@dataclass(frozen=True)
class HFArchitecture(Architecture):
    """A network of transformers that reads texts, under the names of its parameters there.

    Attributes:
        depth: Number of transformer layers L.
        embed_dim: Width d.
        num_heads: Attention heads.
        heads_per_group: Heads that share one head of keys and values (grouped-query attention); 1: each has its own.
        head_dim: Width of a head; 0: ``embed_dim / num_heads``.
        mlp_ratio: Neurons of the MLP divided by ``embed_dim``.
        max_len: Rows of the position embedding, or the most tokens for which rotary positions are meant.
        vocab_size: Tokens, V.
        pad_id: Token that pads shorter texts on the right.
        num_classes: Outputs of the head, K; of a language model the tokens.
        stages: Numbers of layers that share one set of weights, see :class:`~lgx.architectures.base.Architecture`.
        kind: What the head predicts: the class of a text, or for ``language`` the next token.
        form: Type of the model and its values other than sizes, see :mod:`lgx.architectures.hf_config`.
    """

    depth: int = 12
    embed_dim: int = 768
    num_heads: int = 12
    heads_per_group: int = 1
    head_dim: int = 0
    max_len: int = 1024
    vocab_size: int = 50257
    pad_id: int = 0
    num_classes: int = 2
    kind: Kind = "text"
    form: str = "llama"
    family: ClassVar = "hf"
    label: ClassVar = "network of transformers"
    example: ClassVar = "hf:depth=4,embed_dim=192,num_heads=3,form=llama"
    kinds: ClassVar = TEXTS
    limits: ClassVar = {
        "depth": 1000, "embed_dim": 65_536, "num_heads": 65_536, "heads_per_group": 65_536, "max_len": 2**20,
    }  # fmt: skip
    input_keys: ClassVar = ("max_len", "vocab_size", "pad_id")
    shared_keys: ClassVar = (*input_keys, "form")
    source_sizes: ClassVar = "embed_dim, vocab_size and form, and at most the max_len"

    def check(self) -> None:
        """Check heads, padding and form."""
        check_fields(vars(self), _FIELDS, "architecture")
        if self.num_heads % self.heads_per_group:
            raise UserError(
                f"architecture: heads_per_group {self.heads_per_group} does not divide num_heads {self.num_heads}; "
                f"heads are cut by whole groups, so choose a multiple"
            )
        if self.pad_id >= self.vocab_size:
            raise UserError(f"architecture: pad_id {self.pad_id} must be below vocab_size {self.vocab_size}")
        if self.head_dim * self.num_heads == self.embed_dim:
            object.__setattr__(self, "head_dim", 0)
        structure = self.structure
        if self.head_dim and not structure.has_free_head_dim:
            raise UserError(
                f"architecture: heads of {self.model_type} have the width embed_dim / num_heads; leave out head_dim"
            )
        with extra("nlp", "architecture"):
            from lgx.architectures.hf_config import hidden_key
        if self.mlp_ratio != 4 and hidden_key(self.model_type) is None:
            raise UserError(f"architecture: the MLP of {self.model_type} has mlp_ratio 4; leave it out")

    @property
    def model_type(self) -> str:
        """The type of the model, e.g. ``llama``."""
        return self.form.partition("+")[0]

    @property
    def structure(self) -> "Structure":
        """What all networks of this form have in common."""
        with extra("nlp", "architecture"):
            from lgx.architectures.hf_config import kinds_of
            from lgx.architectures.hf_structure import structure
        known = kinds_of(self.model_type)
        return structure(self.form, self.kind if self.kind in known or not known else known[0], self.heads_per_group)

    @property
    def layers(self) -> str:  # type: ignore[override]
        """Prefix of the names of a layer's parameters, before the layer's number."""
        return self.structure.layers

    @property
    def head(self) -> str:  # type: ignore[override]
        """Prefix of the names of the parameters that give the logits."""
        return self.structure.head

    @property
    def head_prefixes(self) -> tuple[str, ...]:
        """Prefixes of the names of the task's parameters."""
        return self.structure.head_prefixes

    @property
    def has_rotary_positions(self) -> bool:
        """Whether positions are rotations of queries and keys (RoPE)."""
        return self.structure.has_rotary_positions

    @property
    def most_tokens(self) -> int:
        """Longest text in tokens: some position embeddings have rows that no token gets."""
        return self.max_len - (self.pad_id + 1 if self.structure.has_reserved_positions else 0)

    def check_inputs(self, task: Task, owner: str) -> None:
        """Refuse a text task whose token ids mean something else or whose texts are too long."""
        if self.vocab_size != task.vocab_size or self.most_tokens < task.max_len:
            raise UserError(
                f"{owner}: knows {self.vocab_size} tokens, in texts of up to {self.most_tokens}, but task {task.name} "
                f"has {task.vocab_size}, in texts of up to {task.max_len}; set data.max_len, data.vocab_size and "
                f"data.tokenizer to those of the network"
            )
        if self.kind == "text" and self.pad_id != task.pad_id:
            raise UserError(
                f"{owner}: texts are padded with token {self.pad_id}, but task {task.name} pads with {task.pad_id}; "
                f"write hf:…,pad_id={task.pad_id} as architecture, or give the network's tokenizer as data.tokenizer"
            )

    def check_source(self, source: Architecture, method: str) -> None:
        """Refuse a network of another form."""
        if isinstance(source, HFArchitecture) and source.form != self.form:
            raise UserError(
                f"{method}: the source has the form {source.form}, the descendant {self.form}; leave out form"
            )

    def inherited(self, text: str) -> dict[str, Any]:
        """All values but depth, width and heads."""
        named = {part.partition("=")[0].rpartition(":")[2].strip() for part in text.split(",")}
        return {key: getattr(self, key) for key in _OF_SOURCE if key not in named}

    def fit_input_sizes(self, tensors: Mapping[str, Tensor], source: Architecture | None) -> dict[str, Tensor]:
        """Leave out rows of the position embedding beyond ``max_len``, and the head of another kind of network."""
        kept = dict(tensors)
        if source is not None and source.kind != self.kind:
            kept = {name: tensor for name, tensor in kept.items() if not name.startswith(source.head_prefixes)}
        kept = {name: tensor for name, tensor in kept.items() if name not in self.structure.lacking}
        beyond = max(0, getattr(source, "max_len", 0) - self.max_len)
        return {k: t[: len(t) - beyond] if beyond and k in self.structure.positions else t for k, t in kept.items()}

    @classmethod
    def parse_option(cls, key: str, text: str) -> dict[str, Any]:
        """Values of one ``key=text``."""
        return {"form": text} if key == "form" else super().parse_option(key, text)

    def build(self, device: str | None = None, drop_rate: float = 0.0) -> nn.Module:
        """Build the model with transformers' own random initialization.

        The share ``drop_rate`` is dropped wherever the type has a dropout.

        Returns:
            The model, token ids (B, N), int64, padded on the right with :attr:`pad_id` -> logits (B, K), or (B, N, V).
        """
        with extra("nlp", f"architecture {name_of(self)}"):
            from lgx.architectures.hf_model import text_network
        own = self.structure
        with building_on(device):
            network: nn.Module = text_network(
                self.configuration(drop_rate), self.kind, own.is_causal, own.layers, self.most_tokens
            )
        self.share_stages(network)
        return network

    def configuration(self, drop_rate: float = 0.0) -> Any:
        """The configuration of transformers."""
        from lgx.architectures.hf_config import configuration

        return configuration(self.form, {field.name: getattr(self, field.name) for field in fields(self)}, drop_rate)

    def example_input(self, device: str = "meta") -> Tensor:
        """One text of the largest length, int64, (1, N)."""
        return torch.empty(1, self.most_tokens, dtype=torch.long, device=device)

    def axes_of_one_layer(self) -> Mapping[str, Axes]:
        """See :class:`~lgx.architectures.base.Architecture`."""
        return _axes(self)


@lru_cache(maxsize=256)
def _axes(architecture: HFArchitecture) -> dict[str, Axes]:
    from lgx.architectures.hf_structure import axes_with_sizes

    own = architecture.structure
    sizes = {field.name: getattr(architecture, field.name) for field in fields(architecture)}
    return {name: axes_with_sizes(found, sizes) for name, found in own.axes.items()}


def described_network(place: str) -> HFArchitecture:
    """The architecture of a model of transformers, a classifier of texts or a language model.

    Args:
        place: Folder with its ``config.json``, or its name on the Hugging Face hub.
    """
    remedy = "give a folder that transformers' save_pretrained wrote"
    folder = Path(place)
    if not folder.is_dir():
        with foreign_errors(f"hf:{place}", "could not be downloaded", remedy), hub_or_cache(f"hf:{place}", remedy):
            folder = Path(hf_hub_download(place.removeprefix("hf://"), "config.json")).parent
    config = folder / "config.json"
    if not config.is_file():
        raise UserError(f"hf:{place}: has no config.json; {remedy}")
    return describe_config(read_json(config, remedy), str(config))


def describe_config(about: Any, place: str) -> HFArchitecture:
    """The architecture of a configuration of transformers.

    A configuration that names a classifier, or a type that has no language model, is for the kind ``text``.

    Args:
        about: What ``config.json`` holds.
        place: The file, for messages.
    """
    with extra("nlp", place):
        from lgx.architectures.hf_config import kinds_of, split_config
    about = check_fields(about, {"num_labels": CLASSES, "id2label": MAPPING}, place)
    values, is_classifier = split_config(about, place), "Classification" in str(about.get("architectures"))
    try:
        if "language" in kinds_of(values["form"].partition("+")[0]) and not is_classifier:
            try:
                return HFArchitecture(**values, kind="language")
            except UserError:  # an encoder
                pass
        classes = about.get("num_labels") or len(about.get("id2label") or "ab")
        return HFArchitecture(**values, kind="text", num_classes=classes)
    except UserError as error:
        raise UserError(f"{place}: {str(error).removeprefix('architecture: ')}") from error


register_family(HFArchitecture, {})
