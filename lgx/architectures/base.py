"""The base class of all architecture descriptions, their families, and networks that are built without values."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from typing import Any, ClassVar, Self, TypeVar, cast

from torch import Tensor, nn

from lgx.architectures.axes import Axes
from lgx.architectures.counting import by_depth, macs_of, parameters_of
from lgx.core.schema import CLASSES, Field, at_most, check_fields, one_of, shortened
from lgx.core.task import Kind, Task, outputs_in_words, size_text
from lgx.errors import UserError

DEFAULT_FAMILY = "vit"
"""Family of a specification or dictionary without a family."""

_ALWAYS_NAMED = ("depth", "embed_dim", "num_heads")
_OF_ALL = {
    "vocab_size": at_most(2**24, 2),  # one token is the padding
    "num_classes": CLASSES,
    "mlp_ratio": Field(lambda value: type(value) in (int, float) and 0 < value <= 1000, "a number, at most 1,000"),
    "stages": Field(
        lambda value: value is None or (isinstance(value, list | tuple) and all(map(at_most(1000, 1).holds, value))),
        "a list of whole numbers of at least 1",
    ),
}
_OF_THE_TASK = ("num_classes", "kind")


@dataclass(frozen=True)
class Architecture(ABC):
    """A transformer with a head, described by plain values.

    A family of architectures is a frozen dataclass that derives from this class, gives every field a default, and is
    registered with :func:`lgx.architectures.base.register_family`.

    Attributes:
        depth: Number of transformer layers L.
        embed_dim: Width d.
        num_heads: Attention heads; must divide ``embed_dim``.
        mlp_ratio: Hidden width of the MLP divided by ``embed_dim``.
        stages: Numbers of layers that share one set of weights, front to back; their sum is ``depth``. None: every
            layer has its own weights. (SWS, Eq. 1: the architecture of an auxiliary net.)
        family: Name of the family. Specifications start with it, dictionaries have it under the key ``family``.
        label: The family in messages, e.g. ``ViT``.
        example: The name of one of its architectures, for messages.
        kinds: Kinds of prediction of this family's heads.
        head: Prefix of the names of the head's parameters.
        layers: Prefix of the names of a layer's parameters, before the layer's number.
        limits: Largest value of every field that must be a positive whole number. Architectures may come from foreign
            files, and larger values would exhaust time or memory.
        input_keys: Fields that the data determine; they are equal in all architectures of a set.
        shared_keys: Fields that :func:`lgx.architectures.parsing.parse_like` copies from its base.
        source_keys: Fields of a descendant that come from its source, unless its specification names them.
        source_sizes: Fields in which a descendant must agree with its source, in words.
        equal_layers: Whether all layers cost the same.
        short_keys: Keys of a specification that are no fields, see :meth:`parse_option`.

    Raises:
        UserError: If a value is out of range or contradicts another one.
    """

    depth: int = 12
    embed_dim: int = 192
    num_heads: int = 3
    mlp_ratio: float = 4.0
    stages: tuple[int, ...] | None = field(default=None, kw_only=True)
    family: ClassVar[str]
    label: ClassVar[str]
    example: ClassVar[str]
    kinds: ClassVar[tuple[Kind, ...]]
    head: ClassVar[str]
    layers: ClassVar[str]
    limits: ClassVar[Mapping[str, int]]
    input_keys: ClassVar[tuple[str, ...]]
    shared_keys: ClassVar[tuple[str, ...]]
    source_keys: ClassVar[tuple[str, ...]]
    source_sizes: ClassVar[str]
    equal_layers: ClassVar[bool] = False
    short_keys: ClassVar[tuple[str, ...]] = ()

    # -- what a family provides ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def num_classes(self) -> int:
        """Outputs of the head, K; a field of every family."""

    @property
    @abstractmethod
    def kind(self) -> Kind:
        """What the head predicts; a field of families that know several kinds."""

    def check(self) -> None:
        """Refuse values of the family's own fields, and values that contradict each other."""
        return None

    @abstractmethod
    def check_inputs(self, task: Task, owner: str) -> None:
        """Refuse a task whose inputs the network cannot read.

        Args:
            task: The task.
            owner: What has this architecture, for the message.
        """

    @abstractmethod
    def build(self, device: str | None = None, drop_rate: float = 0.0) -> nn.Module:
        """Build the model with the random initialization of its library.

        Args:
            device: ``meta`` builds shapes without memory.
            drop_rate: Regularization in training: stochastic depth of an image model, dropout of a text model.

        Returns:
            The model, inputs -> logits.
        """

    @abstractmethod
    def example_input(self, device: str = "meta") -> Tensor:
        """One input of the largest size, as a batch of one: (1, C, H, W) or (1, N)."""

    def axes_of_one_layer(self) -> Mapping[str, Axes]:
        """The dimensions that depend on the width, of all parameters outside of layers and of layer 0."""
        raise UserError(f"architecture {self.short_spec}: its width cannot be cut")

    def blocks(self, model: nn.Module) -> nn.ModuleList | nn.Sequential:
        """The layers of a network of this architecture."""
        return cast(nn.ModuleList | nn.Sequential, model.get_submodule(self.layers.rstrip(".")))

    def tensors(self, model: nn.Module) -> dict[str, Tensor]:
        """The tensors of a network; one that is tied to another outside of layers is left out."""
        stored = {name for name, _ in (*model.named_parameters(), *model.named_buffers())}
        return {n: tensor for n, tensor in model.state_dict().items() if n in stored or n.startswith(self.layers)}

    @property
    def head_width(self) -> int:
        """Width of an attention head."""
        return int(getattr(self, "head_dim", 0)) or self.embed_dim // self.num_heads

    @property
    def has_rotary_positions(self) -> bool:
        """Whether positions are rotations of queries and keys (RoPE)."""
        return False

    @property
    def head_prefixes(self) -> tuple[str, ...]:
        """Prefixes of the names of all heads' parameters; :attr:`head` is the first one."""
        return (self.head,)

    def check_source(self, source: "Architecture", method: str) -> None:
        """Refuse a source whose parameters have another meaning, even if their shapes agree.

        Args:
            source: Architecture of the network that parameters are taken from.
            method: Name of the method that takes them, for the message.
        """
        return None

    def inherited(self, text: str) -> dict[str, Any]:
        """Values of a descendant that come from this architecture, its source, because its specification is silent.

        Args:
            text: The descendant's specification.
        """
        return {}

    def with_layers(self, source: "Architecture", layers: Sequence[int]) -> Self:
        """A copy whose layers have the kinds of some layers of a source; by default layers have no kinds.

        Args:
            source: The source.
            layers: The source's layer of each layer.
        """
        return self

    @contextmanager
    def with_only(self, model: nn.Module, layers: Sequence[nn.Module], numbers: Sequence[int]) -> Iterator[None]:
        """Within the block, a network of this architecture has other layers.

        Args:
            model: The network.
            layers: The layers.
            numbers: The layer of the network whose kind each of them has.
        """
        whole = self.blocks(model)
        path = self.layers.rstrip(".")
        model.set_submodule(path, nn.ModuleList(layers) if isinstance(whole, nn.ModuleList) else nn.Sequential(*layers))
        try:
            yield
        finally:
            model.set_submodule(path, whole)

    @property
    def usual_layers(self) -> Self:
        """A copy whose layers have the kinds that are usual for its depth."""
        return self

    @property
    def reads_text(self) -> bool:
        """Whether its inputs are texts."""
        return False

    @property
    def shares_layers(self) -> bool:
        """Whether several layers share one set of weights."""
        return self.stages is not None

    def unshared(self) -> Self:
        """A copy in which every layer has its own weights."""
        return self.replace(stages=None)

    def share_stages(self, model: nn.Module) -> None:
        """Let the layers of each stage share the weights of the stage's first layer, in place (SWS, Eq. 1).

        The gradient of a shared layer is the sum over its uses. ``parameters()`` yields it once; ``state_dict()`` names
        it at every use.

        Args:
            model: The network; its layers are replaced.
        """
        blocks = self.blocks(model)
        first = 0
        for size in self.stages or ():
            for layer in range(first, first + size):
                blocks[layer] = blocks[first]
            first += size

    def fit_input_sizes(self, tensors: Mapping[str, Tensor], source: "Architecture | None") -> dict[str, Tensor]:
        """Adapt the parameters of a source whose inputs have another size.

        Args:
            tensors: Parameters under the model's names; some may be missing.
            source: Architecture of this source, where it is known.

        Returns:
            The parameters, with the adapted ones in the shapes of this architecture. A parameter that cannot be adapted
            stays as it is.
        """
        return dict(tensors)

    @classmethod
    def parse_option(cls, key: str, text: str) -> dict[str, Any]:
        """Values of one ``key=text`` of a specification; ``stages=3-3-4`` implies the depth.

        Raises:
            ValueError: If the text is not a value of the key.
        """
        if key == "stages":
            stages = tuple(int(size) for size in text.split("-"))
            return {"stages": stages, "depth": sum(stages)}
        return {key: float(text) if key == "mlp_ratio" else int(text)}

    # -- what all families share --------------------------------------------------------------------------------

    def __post_init__(self) -> None:
        limits = {key: at_most(most, 1) for key, most in self.limits.items()} | {"kind": one_of(*self.kinds)}
        if self.kind == "language" and hasattr(self, "vocab_size"):
            object.__setattr__(self, "num_classes", self.vocab_size)
        check_fields(vars(self), _OF_ALL | limits, "architecture")
        if self.embed_dim % self.num_heads and not getattr(self, "head_dim", 0):
            raise UserError(
                f"architecture: num_heads {self.num_heads} does not divide embed_dim {self.embed_dim}; choose a divisor"
            )
        if self.stages is not None:
            if sum(self.stages) != self.depth:
                raise UserError(
                    f"architecture: stages {shortened(list(self.stages))} must sum to depth {self.depth}; change one"
                )
            object.__setattr__(self, "stages", tuple(self.stages))
        self.check()

    @property
    def outputs(self) -> str:
        """What its head predicts, in words: ``5 classes``; of a language model ``1,000 tokens``."""
        return outputs_in_words(self.kind, self.num_classes)

    def tied_names(self) -> dict[str, str]:
        """Parameters that are another parameter: the head of a language model may be the token embedding.

        Returns:
            The other name of each; layers that share weights are not meant.
        """
        return _tied_names(self.unshared().replace(depth=1)) if self.kind == "language" else {}

    def check_task(self, task: Task, owner: str) -> None:
        """Refuse a task whose inputs (:meth:`check_inputs`) or classes differ from those of ``owner``, a network."""
        self.check_inputs(task, owner)
        if self.num_classes != task.num_classes:
            raise UserError(f"{owner}: has {self.num_classes} classes, but task {task.name} has {task.num_classes}")

    def spec(self, also: Collection[str] = ()) -> str:
        """``depth=6,embed_dim=64,...``: the values that differ from the defaults; ``parse_any_architecture`` reads it.

        Families other than ViT start with their name: ``hf:depth=6,...``. Depth, embed_dim and num_heads are always
        named. ``num_classes`` and ``kind`` are never named, because they belong to the task.

        Args:
            also: More values that are always named.
        """
        default = type(self)()
        parts = []
        for name in (each.name for each in fields(self)):
            value = getattr(self, name)
            is_named = name in (*_ALWAYS_NAMED, *also)
            if name not in _OF_THE_TASK and (is_named or value != getattr(default, name)):
                parts.append(f"{name}={size_text(value) if name == 'img_size' else _option_text(value)}")
        return ("" if self.family == DEFAULT_FAMILY else f"{self.family}:") + ",".join(parts)

    @property
    def short_spec(self) -> str:
        """The specification in messages."""
        return self.spec()

    def without_task(self) -> Self:
        """A copy with the family's default number of classes and kind."""
        default = type(self)()
        keys = {field.name for field in fields(self)}
        return self.replace(**{key: getattr(default, key) for key in _OF_THE_TASK if key in keys})

    def replace(self, **changes: Any) -> Self:
        """A copy with some values changed."""
        return replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Plain types only, for JSON and checkpoints; a ViT has no key ``family``."""
        values = {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(self).items()}
        return values if self.family == DEFAULT_FAMILY else {"family": self.family, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Self:
        """Inverse of :meth:`to_dict`; refuses unknown keys."""
        fields_of_class = {key: value for key, value in values.items() if (key, value) != ("family", cls.family)}
        keys = [field.name for field in fields(cls)]
        unknown = set(fields_of_class) - set(keys)
        if unknown:
            raise UserError(
                f"architecture: unknown key(s) {', '.join(sorted(unknown))[:200]}; known are {', '.join(keys)}"
            )
        return cls(**fields_of_class)

    def count_parameters(self) -> int:
        """Number of parameters; shared parameters count once."""
        return by_depth(parameters_of, self)

    def count_macs(self) -> int:
        """Multiply-accumulates of the forward pass of one example, attention products included."""
        return by_depth(macs_of, self.unshared())


@cache
def _tied_names(architecture: Architecture) -> dict[str, str]:
    model = architecture.build("meta")
    first_names = {parameter: name for name, parameter in model.named_parameters()}
    pairs = model.named_parameters(remove_duplicate=False)
    return {name: first_names[parameter] for name, parameter in pairs if first_names[parameter] != name}


def _option_text(value: Any) -> str:
    if isinstance(value, tuple):
        return "-".join(map(str, value))
    if isinstance(value, float):
        short = f"{value:g}"
        return short if float(short) == value else repr(value)
    return str(value)


A = TypeVar("A", bound=Architecture)

FAMILIES: dict[str, type[Architecture]] = {}
"""All families by name. A family's own module registers it, and ``lgx.architectures`` imports the module."""

NAMED: dict[str, Architecture] = {}
"""All named architectures, e.g. ``6-Small``; every one has the classes and the kind of its family's default."""


def register_family(family: type[A], named: Mapping[str, A]) -> None:
    """Make a family known to the parser, the dictionary reader and the names.

    Args:
        family: The class that describes architectures of the family.
        named: Names of architectures in the papers; if an architecture has several names, the first is shown.

    Raises:
        ValueError: If the name of the family or of an architecture is taken.
    """
    taken = sorted({family.family} & FAMILIES.keys() | named.keys() & NAMED.keys())
    if taken:
        raise ValueError(f"{family.__name__}: already registered: {', '.join(taken)}")
    FAMILIES[family.family] = family
    NAMED.update(named)
