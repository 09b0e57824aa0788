"""The initializer protocol, and putting a start into a model."""

import math
from abc import ABC, abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from timm.layers import resample_abs_pos_embed, resample_patch_embed
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from lgx.architectures import Architecture, name_of
from lgx.architectures.zoo import ZooModel
from lgx.artifacts.learngene import Learngene
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization.origin import Origin

Head = Literal["keep", "new"]


class Initializer(ABC):
    """Gives a descendant its start: ``initializer(architecture, task) -> state dict``, under the names of timm.

    Text models have transformers' names. What the dictionary lacks keeps the model's random start.
    """

    starts_any_model: ClassVar[bool] = False
    """Whether it also starts models of timm and torchvision that are no ViTs of lgx, see :meth:`start_model`."""
    shared: ClassVar[bool] = True
    """Whether one stored source starts descendants of several architectures; False where each needs its own."""
    is_random: ClassVar[bool] = False
    """Whether the whole start is random: training from it is training from scratch."""

    @property
    @abstractmethod
    def method(self) -> str:
        """Name of the method in results, e.g. ``sws``."""

    @property
    def stored_parameters(self) -> int:
        """Parameters that must be stored to use this initializer for any number of descendants."""
        return 0

    @abstractmethod
    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """Predict, select or copy the parameters of one descendant.

        Args:
            architecture: The descendant's architecture.
            task: The descendant's task, for task-aware methods.

        Returns:
            Parameters under the model's names; may lack some.

        Raises:
            UserError: If the architecture does not suit the source.
        """

    @classmethod
    def check_learngene(cls, source: str, method: str, learngene: Learngene | None) -> None:
        """Refuse a source that another method has made; by default any source suits.

        Args:
            source: What the user named.
            method: Method whose initializer is to read it.
            learngene: The source where it is a learngene file.

        Raises:
            UserError: If it does not suit.
        """
        return None

    def origin(self) -> Origin:
        """What a descendant inherits beside the weights; empty without a source."""
        return Origin()

    def start_model(self, model: nn.Module, zoo: ZooModel, head: Head) -> tuple[dict[str, Tensor], tuple[str, ...]]:
        """Start a model that is no ViT of lgx; only where ``starts_any_model``.

        Args:
            model: Names and shapes of the parameters.
            zoo: Describes the model.
            head: ``keep`` also gives the head's parameters.

        Returns:
            Parameters under the model's names, which may lack some, and further lines for the terminal.

        Raises:
            UserError: If the model cannot be traced.
        """
        raise NotImplementedError(f"{type(self).__name__}.start_model")

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """Further lines for the terminal on the parameters ``taken`` from it."""
        return ()


@dataclass(frozen=True)
class Initialization:
    """A descendant with its start, and what came from where.

    Attributes:
        model: The model.
        taken: Parameter names that the initializer gave.
        random: Parameter names that kept their random start.
        stored: Parameters that the initializer stores.
        built: Parameters of the descendant.
        notes: Further lines for the terminal.
    """

    model: nn.Module
    taken: tuple[str, ...]
    random: tuple[str, ...]
    stored: int
    built: int
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        """A few lines for the terminal."""
        sizes = {name: p.numel() for name, p in self.model.named_parameters()}
        taken, random = sum(sizes[n] for n in self.taken), sum(sizes[n] for n in self.random)
        lines = (
            f"taken     {taken:,} parameters: {_summary(self.taken)}",
            f"random    {random:,} parameters: {_summary(self.random)}",
            f"stored    {self.stored:,} parameters, built {self.built:,}",
            *self.notes,
        )
        return "\n".join(lines)


def initialize(
    architecture: Architecture,
    initializer: Initializer,
    task: Task | None = None,
    head: Head = "keep",
    drop_rate: float = 0.0,
) -> Initialization:
    """Build a descendant and give it its start.

    Random parts are drawn from torch's global generator: seed it before.

    Args:
        architecture: What to build; its ``num_classes`` is the descendant's.
        initializer: Gives the start.
        task: The descendant's task.
        head: ``keep`` takes the source's head, which must fit; ``new`` leaves the head random.
        drop_rate: Stochastic depth in training; of a text model dropout.

    Returns:
        The model and a record of what came from where.

    Raises:
        UserError: If tensors do not fit the architecture, or a head of another size or kind is to be kept.
    """
    kind, head_weight = initializer.origin().kind, f"{architecture.head}weight"
    if kind is not None and (kind == "text") != (architecture.kind == "text"):
        raise UserError(
            f"{initializer.method}: its source is for {kind}, {name_of(architecture)} for {architecture.kind}; give a "
            f"source for {architecture.kind}"
        )
    model = architecture.build("meta", drop_rate)
    tensors = adapt(initializer(architecture, task), model)
    if head == "new":
        tensors = {k: v for k, v in tensors.items() if not k.startswith(architecture.head)}
    elif head_weight in tensors and kind != architecture.kind:
        raise UserError(
            f"{initializer.method}: its head was made for {kind}, the descendant is for {architecture.kind}; ask for a "
            f"new head (`--head {architecture.num_classes}` in `lgx init`, `--model.head new` in `lgx fit`)"
        )
    elif head_weight in tensors and tensors[head_weight].shape[:1] != (architecture.num_classes,):
        raise UserError(
            f"{initializer.method}: its head has {(*tensors[head_weight].shape, 0)[0]} classes, the descendant "
            f"{architecture.num_classes}; ask for a new head (`--head {architecture.num_classes}` in `lgx init`, "
            f"`--model.head new` in `lgx fit`)"
        )
    expected = model.state_dict()
    for name, tensor in tensors.items():
        if name not in expected:
            raise UserError(f"{initializer.method}: gives {name}, which {name_of(architecture)} lacks")
        if tensor.shape != expected[name].shape:
            sizes = "embed_dim, mlp_ratio, patch_size and in_chans"
            if architecture.kind == "text":
                sizes = "embed_dim and vocab_size, and at most the max_len"
            raise UserError(
                f"{initializer.method}: {name} has shape {tuple(tensor.shape)}, but {name_of(architecture)} needs "
                f"{tuple(expected[name].shape)}; choose the {sizes} of the source"
            )
    if architecture.shares_layers or expected.keys() - tensors.keys():
        model = architecture.build(None, drop_rate)
    else:  # nothing is left to chance: the random start, half of the time for a ViT-Base, need not be drawn
        model.to_empty(device="cpu")
    return loaded(model, tensors, initializer.stored_parameters, initializer.notes(architecture, tensors))


def loaded(model: nn.Module, tensors: dict[str, Tensor], stored: int, notes: tuple[str, ...]) -> Initialization:
    """Load tensors into a model, and record what came from where.

    Args:
        model: Keeps its own start where ``tensors`` lack a name.
        tensors: Parameters of the model's shapes.
        stored: Parameters that the initializer stores.
        notes: Further lines for the terminal.
    """
    model.load_state_dict(tensors, strict=False)
    names = [name for name, _ in model.named_parameters()]
    return Initialization(
        model=model,
        taken=tuple(n for n in names if n in tensors),
        random=tuple(n for n in names if n not in tensors),
        stored=stored,
        built=sum(p.numel() for p in model.parameters()),
        notes=notes,
    )


def adapt(tensors: dict[str, Tensor], model: nn.Module) -> dict[str, Tensor]:
    """Fit what depends on the inputs' size.

    A ViT's position embedding and patch projection are resampled to the model's grid and patch size (timm's
    functions). Of a GPT-2's position embedding the rows for texts longer than the model's are left out.

    Args:
        tensors: Parameters under the model's names; ``pos_embed`` (1, 1 + old grid², D), ``patch_embed.proj.weight``
            (D, C, p, p), ``transformer.wpe.weight`` (N, D).
        model: The model to fit.

    Returns:
        The tensors, these fitted where their sizes differ.
    """
    adapted = dict(tensors)
    if not isinstance(model, VisionTransformer):
        if (positions := tensors.get(_POSITIONS)) is not None and positions.ndim:
            adapted[_POSITIONS] = positions[: model.get_parameter(_POSITIONS).shape[0]]
        return {name: tensor.to(torch.float32) for name, tensor in adapted.items()}
    embedding, projection = tensors.get("pos_embed"), tensors.get("patch_embed.proj.weight")
    grid = list(model.patch_embed.grid_size)
    # What is no embedding of a square grid, or no projection, stays as it is: its shape is refused as any other.
    if embedding is not None and _grid_of(embedding) not in (None, grid[0]):
        adapted["pos_embed"] = resample_abs_pos_embed(embedding, grid, num_prefix_tokens=1)
    size = list(model.patch_embed.patch_size)
    if projection is not None and projection.ndim == 4 and 0 not in projection.shape:
        if list(projection.shape[-2:]) != size:
            adapted["patch_embed.proj.weight"] = resample_patch_embed(projection, size)
    return {name: tensor.to(torch.float32) for name, tensor in adapted.items()}


_POSITIONS = "transformer.wpe.weight"


def _grid_of(embedding: Tensor) -> int | None:
    """Side of the square grid that a position embedding (1, 1 + grid², D) is for; None where it is none."""
    if embedding.ndim != 3 or embedding.shape[0] != 1 or embedding.shape[1] < 2 or not embedding.shape[2]:
        return None
    side = math.isqrt(embedding.shape[1] - 1)
    return side if side**2 == embedding.shape[1] - 1 else None


def _summary(names: tuple[str, ...]) -> str:
    """Names with the layers folded: ``blocks.0-5, cls_token, norm``."""
    names = tuple(n.replace("transformer.h.", "blocks.").removeprefix("transformer.") for n in names)
    layers = sorted({int(n.split(".")[1]) for n in names if n.startswith("blocks.")})
    spans: list[list[int]] = []
    for layer in layers:
        if spans and layer == spans[-1][1] + 1:
            spans[-1][1] = layer
        else:
            spans.append([layer, layer])
    blocks = [f"blocks.{a}" if a == b else f"blocks.{a}-{b}" for a, b in spans]
    others = dict.fromkeys(n.split(".")[0] for n in names if not n.startswith("blocks."))
    return ", ".join([*blocks, *others]) or "none"
