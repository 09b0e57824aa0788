"""Build descendants and initialize them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from lgx.architectures import Architecture, name_of
from lgx.architectures.building import fill_buffers
from lgx.architectures.class_order import class_order, with_class_order
from lgx.core.task import Kind, Task, outputs_in_words
from lgx.errors import UserError
from lgx.initialization.initializer import Head, Initializer


@dataclass(frozen=True)
class Initialization:
    """An initialized descendant.

    Attributes:
        model: The model.
        architecture: Its architecture, in which copied layers have the kinds of the source's layers.
        taken: Names of the parameters from the initializer.
        random: Names of the parameters that are initialized at random.
        stored: Number of parameters that the initializer stores.
        notes: Further lines for the terminal.
    """

    model: nn.Module
    architecture: Architecture
    taken: tuple[str, ...]
    random: tuple[str, ...]
    stored: int
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        """Describe the initialization in lines for the terminal."""
        sizes = {name: p.numel() for name, p in self.model.named_parameters()}
        taken, random = sum(sizes[n] for n in self.taken), sum(sizes[n] for n in self.random)
        lines = (
            f"taken     {taken:,} parameters: {_summary(self.taken)}",
            f"random    {random:,} parameters: {_summary([name for name in self.random if sizes[name]])}",
            f"stored    {self.stored:,} parameters in the source; the descendant has {taken + random:,}",
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
    """Build a descendant and initialize it.

    Random parameters are drawn from torch's global generator: seed it before.

    Args:
        architecture: The descendant's architecture, with its number of classes.
        initializer: Gives the parameters.
        task: The descendant's task.
        head: ``keep`` takes the source's head, which must fit; ``new`` initializes the head at random.
        drop_rate: Regularization in training: stochastic depth of an image model, dropout of a text model.

    Returns:
        The model and a record of its initialization.

    Raises:
        UserError: If the parameters do not fit the architecture, or a kept head has another size or kind.
    """
    origin = initializer.origin()
    kind = origin.kind
    if origin.architecture is not None and origin.architecture.reads_text != architecture.reads_text:
        raise UserError(
            f"{initializer.method}: the source is for {kind}, but {name_of(architecture)} is for "
            f"{architecture.kind}; give a source for {architecture.kind}"
        )
    if origin.architecture is not None:
        architecture.check_source(origin.architecture, initializer.method)
        layers = initializer.source_layers(architecture.depth)
        if architecture.reads_text and layers is not None:
            architecture = architecture.with_layers(origin.architecture, layers)
    model = architecture.build("meta", drop_rate)
    source = None if initializer.predicts_heads else origin.architecture  # predictions have the descendant's sizes
    tensors = architecture.fit_input_sizes(initializer(architecture, task), source)  # of any floating-point type
    if head == "new":
        tensors = {name: tensor for name, tensor in tensors.items() if not name.startswith(architecture.head_prefixes)}
    else:
        _check_head(tensors.get(f"{architecture.head}weight"), architecture, initializer.method, kind)
        class_names = task.class_names if task and f"{architecture.head}weight" in tensors else ()
        source_names = origin.label_names or ()
        if class_names and (not initializer.predicts_heads or set(source_names) == set(class_names)):
            tensors = with_class_order(tensors, architecture, class_order(source_names, class_names, "the source"))
    expected = model.state_dict()
    _check_shapes(tensors, expected, architecture, initializer.method)
    if architecture.shares_layers or expected.keys() - tensors.keys():
        model = architecture.build(None, drop_rate)
    else:  # no parameter is random, and to draw random ones would take half of the time for a ViT-Base
        model.to_empty(device="cpu")
        fill_buffers(model)
    notes = initializer.notes(architecture, tensors)
    return load_parameters(model, architecture, tensors, initializer.stored_parameters, notes)


def load_parameters(
    model: nn.Module,
    architecture: Architecture,
    tensors: Mapping[str, Tensor],
    stored: int,
    notes: tuple[str, ...] = (),
) -> Initialization:
    """Load parameters into a model, and record which ones.

    Args:
        model: The model; parameters that ``tensors`` lacks stay as they are.
        architecture: Its architecture.
        tensors: Parameters with the model's names and shapes.
        stored: Number of parameters that the initializer stores.
        notes: Further lines for the terminal.
    """
    model.load_state_dict(tensors, strict=False)
    names = [name for name, _ in model.named_parameters()]
    taken = tuple(name for name in names if name in tensors)
    return Initialization(
        model, architecture, taken, tuple(name for name in names if name not in tensors), stored, notes
    )


def _check_head(weight: Tensor | None, architecture: Architecture, method: str, kind: Kind | None) -> None:
    """Refuse to keep a head (K, D) of another kind or number of classes K."""
    if weight is None:
        return
    remedy = f"give it a new head (`--head {architecture.num_classes}` in `lgx init`, `--model.head new` in `lgx fit`)"
    if kind != architecture.kind:
        raise UserError(f"{method}: the head is for {kind}, but the descendant is for {architecture.kind}; {remedy}")
    if weight.shape[:1] != (architecture.num_classes,):
        raise UserError(
            f"{method}: the head has {outputs_in_words(kind, (*weight.shape, 0)[0])}, but the descendant has "
            f"{architecture.num_classes}; {remedy}"
        )


def _check_shapes(
    tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor], architecture: Architecture, method: str
) -> None:
    for name, tensor in tensors.items():
        if name not in expected:
            raise UserError(f"{method}: gives {name}, which {name_of(architecture)} lacks")
        if tensor.shape != expected[name].shape:
            raise UserError(
                f"{method}: {name} has shape {tuple(tensor.shape)}, but {name_of(architecture)} needs "
                f"{tuple(expected[name].shape)}; choose the source's {architecture.source_sizes}"
            )


def _summary(names: Sequence[str]) -> str:
    """Names with the layers folded: ``blocks.0-5, cls_token, norm``."""
    matches = [re.match(r"((?:\w+\.)*?)(?:blocks|layers?|h|block)\.(\d+)\.", name) for name in names]
    base = next((match[1].partition(".")[0] for match in matches if match), "")  # transformers puts layers below a name
    outside = [name for name, match in zip(names, matches, strict=True) if not match]
    parts = dict.fromkeys(name.removeprefix(f"{base}.").split(".")[0] for name in outside)
    layers = sorted({int(match[2]) for match in matches if match})
    first, last = (layers[0], layers[-1]) if layers else (0, -1)
    folded = len(layers) == last - first + 1 > 1
    blocks = [f"blocks.{first}-{last}"] if folded else [f"blocks.{layer}" for layer in layers]
    return ", ".join([*blocks, *parts]) or "none"
