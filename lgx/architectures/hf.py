"""The family of transformers' networks of texts: decoders such as Llama and GPT-2, encoders such as BERT."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from lgx.architectures.axes import Axes
from lgx.architectures.base import NAMED, Architecture, register_family
from lgx.architectures.building import building_on
from lgx.architectures.names import name_of
from lgx.core.schema import CLASSES, MAPPING, Field, at_most, check_fields
from lgx.core.task import Kind, Task
from lgx.errors import UserError
from lgx.host.extras import extra
from lgx.host.safety import read_json

if TYPE_CHECKING:
    from lgx.architectures.hf_structure import Structure

_FIELDS = {
    "head_dim": at_most(65_536, 0),
    "config": Field(lambda value: type(value) is str, "a configuration of transformers, as JSON"),
}
_CLASSES = Field(lambda value: value is None or isinstance(value, list), "a list of names of classes")
GPT2 = '{"model_type":"gpt2"}'
"""The configuration of GPT-2."""


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
        num_classes: Outputs of the head, K; of a language model the tokens; 0: an encoder without a head.
        stages: Numbers of layers that share one set of weights, see :class:`~lgx.architectures.base.Architecture`.
        kind: What the head predicts: the class or the labels of a text, or for ``language`` the next token.
        config: All other values of transformers' configuration, as JSON, see :mod:`lgx.architectures.hf_config`.
            Lists of values for each layer are of a network of this depth; without them layers are as usual in the type.
    """

    depth: int = 12
    embed_dim: int = 768
    num_heads: int = 12
    heads_per_group: int = 1
    head_dim: int = 0
    max_len: int = 1024
    vocab_size: int = 50257
    num_classes: int = 2
    kind: Kind = "text"
    config: str = GPT2
    family: ClassVar = "hf"
    label: ClassVar = "network of transformers"
    example: ClassVar = "6-GPT2"
    kinds: ClassVar = ("text", "multilabel", "language")
    limits: ClassVar = {
        "depth": 1000, "embed_dim": 65_536, "num_heads": 65_536, "heads_per_group": 65_536, "max_len": 2**20,
    }  # fmt: skip
    input_keys: ClassVar = ("max_len", "vocab_size")
    shared_keys: ClassVar = (*input_keys, "config")
    short_keys: ClassVar = ("type",)
    source_keys: ClassVar = ("depth", "embed_dim", "num_heads", "heads_per_group", "mlp_ratio", *shared_keys)
    source_sizes: ClassVar = "embed_dim and vocab_size, and at most the max_len"

    def check(self) -> None:
        """Check heads and configuration."""
        check_fields(vars(self), _FIELDS, "architecture")
        if self.num_heads % self.heads_per_group:
            raise UserError(
                f"architecture: heads_per_group {self.heads_per_group} does not divide num_heads {self.num_heads}; "
                f"heads are cut by whole groups, so choose a multiple"
            )
        if self.config == GPT2 and self.heads_per_group == 1 and not self.head_dim:
            return  # any sizes are right, and the import of transformers takes seconds
        with extra("nlp", "architecture"):
            from lgx.architectures.hf_config import hidden_key, usual_text
        object.__setattr__(self, "config", usual_text(self.config, self.depth, self.vocab_size))
        if self.head_dim * self.num_heads == self.embed_dim:
            object.__setattr__(self, "head_dim", 0)
        structure = self.structure
        if self.head_dim and not structure.has_free_head_dim:
            raise UserError(
                f"architecture: heads of {self.model_type} have the width embed_dim / num_heads; leave out head_dim"
            )
        if self.mlp_ratio != 4 and hidden_key(self.model_type) is None:
            raise UserError(f"architecture: the MLP of {self.model_type} has mlp_ratio 4; leave it out")

    @property
    def model_type(self) -> str:
        """The type of the model, e.g. ``llama``."""
        return str(json.loads(self.config)["model_type"])

    @property
    def is_gpt2(self) -> bool:
        """Whether it is a GPT-2, which hypernetworks predict."""
        return self.model_type == "gpt2"

    @property
    def structure(self) -> "Structure":
        """What all networks of this configuration have in common."""
        from lgx.architectures.hf_config import kinds_of, structural_text
        from lgx.architectures.hf_structure import structure

        kind = "language" if self.kind == "language" else "text"
        kinds = kinds_of(self.model_type)
        kind = kind if kind in kinds or not kinds else kinds[0]
        return structure(structural_text(self.config), kind, self.heads_per_group)

    @property
    def reads_text(self) -> bool:
        """True: its inputs are texts."""
        return True

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
    def equal_layers(self) -> bool:  # type: ignore[override]
        """Whether all layers cost the same: none has a kind of its own."""
        return not self.structure.lacking and "layer_types" not in self.configuration().to_dict()

    @property
    def has_rotary_positions(self) -> bool:
        """Whether positions are rotations of queries and keys (RoPE)."""
        return self.structure.has_rotary_positions

    @property
    def most_tokens(self) -> int:
        """Longest text in tokens: some position embeddings have rows that no token gets."""
        reserved = self.structure.has_reserved_positions
        return self.max_len - (int(self.configuration().pad_token_id) + 1 if reserved else 0)

    def check_inputs(self, task: Task, owner: str) -> None:
        """Refuse a text task whose token ids mean something else or whose texts are too long."""
        if self.vocab_size != task.vocab_size or self.most_tokens < task.max_len:
            raise UserError(
                f"{owner}: knows {self.vocab_size} tokens, in texts of up to {self.most_tokens}, but task {task.name} "
                f"has {task.vocab_size}, in texts of up to {task.max_len}; set data.max_len, data.vocab_size and "
                f"data.tokenizer to those of the network"
            )

    def check_source(self, source: Architecture, method: str) -> None:
        """Refuse a network of another structure, and other angles of rotary positions, those of narrower heads."""
        from lgx.architectures.hf_config import structural_text

        if not isinstance(source, HFArchitecture):
            return
        ours, theirs = (json.loads(structural_text(each.config)) for each in (self, source))
        wrong = sorted(key for key in {*ours, *theirs} if ours.get(key) != theirs.get(key))
        if wrong:
            raise UserError(
                f"{method}: the descendant has {wrong[0]} {ours.get(wrong[0])!r}, but the source "
                f"{theirs.get(wrong[0])!r}; name only sizes in the architecture"
            )
        is_free = not self.has_rotary_positions or self.structure.has_free_head_dim
        if not is_free and self.head_width != source.head_width:
            raise UserError(
                f"{method}: rotary positions have other angles in heads of width {self.head_width} than in the "
                f"source's, {source.head_width}; choose num_heads = embed_dim / {source.head_width}"
            )

    def inherited(self, text: str) -> dict[str, Any]:
        """All values that the text does not name; heads keep their width, so a narrower network has fewer heads.

        A name of the papers has all but vocabulary and positions, a folder has all values.
        """
        sizes, _, config = text.partition(",config=")
        parts = dict(part.partition("=")[::2] for part in sizes.rpartition(":")[2].split(","))
        named = {key.strip(): value for key, value in parts.items()}
        first = next(iter(named))
        if "=" not in sizes.partition(",")[0] and first not in NAMED:
            return {}
        if first in NAMED:
            return {key: getattr(self, key) for key in self.input_keys if key not in named}
        implied = {"config": config or "type" in named, "depth": "stages" in named}
        values = {key: getattr(self, key) for key in self.source_keys if key not in named and not implied.get(key)}
        if "head_dim" not in named and self.structure.has_free_head_dim:
            values["head_dim"] = self.head_width
        if "num_heads" not in named and named.get("embed_dim", "").strip().isdigit():
            groups = int(named["embed_dim"]) // (self.head_width * self.heads_per_group)
            values["num_heads"] = max(1, groups) * self.heads_per_group
        return values if self.num_classes else {**values, "num_classes": 0}

    def with_layers(self, source: Architecture, layers: Sequence[int]) -> "HFArchitecture":
        """See :class:`~lgx.architectures.base.Architecture`."""
        from lgx.architectures.hf_config import of_layers

        if not isinstance(source, HFArchitecture) or [*layers] == [*range(source.depth)]:
            return self
        if [*layers] != [*range(self.depth)] and json.loads(source.config).get("scale_attn_by_inverse_layer_idx"):
            raise UserError(
                f"architecture: what a layer of this {self.model_type} computes depends on its number, so only the "
                f"first layers of a network can be kept, not {' '.join(map(str, layers))}"
            )
        return self.replace(config=of_layers(source.config, source.depth, tuple(layers)))

    @contextmanager
    def with_only(self, model: Any, layers: Sequence[nn.Module], numbers: Sequence[int]) -> Iterator[None]:
        """See :class:`~lgx.architectures.base.Architecture`."""
        from lgx.architectures.hf_config import keys_by_layer

        values = {key: getattr(model.config, key, None) for key in keys_by_layer(self.model_type)}
        lists = {key: value for key, value in values.items() if isinstance(value, list)}
        try:
            for key, of_layers in lists.items():
                setattr(model.config, key, [of_layers[number] for number in numbers])
            with super().with_only(model, layers, numbers):
                yield
        finally:
            for key, of_layers in lists.items():
                setattr(model.config, key, of_layers)

    @property
    def usual_layers(self) -> "HFArchitecture":
        """See :class:`~lgx.architectures.base.Architecture`."""
        from lgx.architectures.hf_config import usual_text

        return self.replace(config=usual_text(self.config, 0, self.vocab_size))

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
        """Values of one ``key=text``; ``type`` is a configuration without further values."""
        if key in ("config", "type"):
            return {"config": text if key == "config" else json.dumps({"model_type": text})}
        return super().parse_option(key, text)

    def spec(self, also: Sequence[str] = ()) -> str:  # type: ignore[override]
        """See :class:`~lgx.architectures.base.Architecture`; the configuration comes last."""
        text, comma, config = super().spec(also).partition(",config=")
        is_type = comma and json.loads(config).keys() == {"model_type"}
        return f"{text},type={self.model_type}" if is_type else f"{text}{comma}{config}"

    @property
    def short_spec(self) -> str:
        """Sizes and type."""
        text, comma, _ = super().spec().partition(",config=")
        return f"{text},type={self.model_type}" if comma else text

    def build(self, device: str | None = None, drop_rate: float = 0.0) -> nn.Module:
        """Build the model with transformers' own random initialization.

        The share ``drop_rate`` is dropped wherever the type has a dropout.

        Returns:
            The model, texts (B, 3, N), see :class:`~lgx.core.batch.Batch` -> logits (B, K), or (B, N, V); without a
            head the features that it would read, (B, D).
        """
        with extra("nlp", f"architecture {name_of(self)}"):
            from lgx.architectures.hf_model import text_network
        with building_on(device):
            network: nn.Module = text_network(
                self.configuration(drop_rate), self.kind, self.structure, self.most_tokens
            )
        self.share_stages(network)
        return network

    def configuration(self, drop_rate: float | None = None) -> Any:
        """The configuration of transformers; ``drop_rate`` replaces its rates of dropout."""
        from lgx.architectures.hf_config import configuration

        return configuration(self.config, vars(self), drop_rate)

    def example_input(self, device: str = "meta") -> Tensor:
        """One text of the largest length, int64, (1, 3, N)."""
        return torch.ones(1, 3, self.most_tokens, dtype=torch.long, device=device)

    def axes_of_one_layer(self) -> Mapping[str, Axes]:
        """See :class:`~lgx.architectures.base.Architecture`."""
        return _axes_by_name(self)


@lru_cache(maxsize=256)
def _axes_by_name(architecture: HFArchitecture) -> dict[str, Axes]:
    from lgx.architectures.hf_structure import axes_with_sizes

    axes = architecture.structure.axes
    return {name: axes_with_sizes(templates, vars(architecture)) for name, templates in axes.items()}


def described_network(name: str) -> HFArchitecture:
    """The architecture of a model of transformers, a classifier of texts or a language model.

    Args:
        name: Folder with its ``config.json``.
    """
    remedy = "give a folder that transformers' save_pretrained wrote"
    config = Path(name) / "config.json"
    if not config.is_file():
        raise UserError(f"hf:{name}: has no config.json; {remedy}")
    return describe_config(read_json(config, remedy), str(config))


def describe_config(about: Any, path: str) -> HFArchitecture:
    """The architecture of a configuration of transformers: a classifier, a language model, or an encoder without head.

    Args:
        about: What ``config.json`` holds.
        path: The file, for messages.
    """
    with extra("nlp", path):
        from lgx.architectures.hf_config import kinds_of, split_config
    about = check_fields(about, {"num_labels": CLASSES, "id2label": MAPPING, "architectures": _CLASSES}, path)
    values = split_config(about, path)
    classes = about.get("architectures") or ()
    is_classifier = any("Classification" in str(name) for name in classes)
    try:
        if "language" in kinds_of(str(about["model_type"])) and not is_classifier:
            try:
                return HFArchitecture(**values, kind="language")
            except UserError:  # an encoder
                pass
        outputs = about.get("num_labels") or len(about.get("id2label") or "ab")
        if is_classifier and (about.get("problem_type") == "regression" or outputs == 1):
            raise UserError("its head is a regression, which lgx does not train; save the network without its head")
        kind: Kind = "multilabel" if about.get("problem_type") == "multi_label_classification" else "text"
        return HFArchitecture(**values, kind=kind, num_classes=outputs if is_classifier or not classes else 0)
    except UserError as error:
        raise UserError(f"{path}: {str(error).removeprefix('architecture: ')}") from error


register_family(HFArchitecture, {f"{depth}-GPT2": HFArchitecture(depth) for depth in range(1, 25)})
"""``3-GPT2`` (TAL): GPT-2 small, 768 wide with 12 heads, at any depth. 1024 tokens, 2 classes."""
