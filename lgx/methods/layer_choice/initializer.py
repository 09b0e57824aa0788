"""Start a descendant from layers of an ancestor, by a rule or a list."""

import random
from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Literal, get_args

from torch import Tensor

from lgx.architectures import Architecture
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.initialization import Sizes
from lgx.initialization.expansion import take_layers
from lgx.methods.baselines.from_source import FromInputs
from lgx.methods.lsamd.selection import selected
from lgx.methods.weight_subcloning.importance import influence
from lgx.methods.weight_subcloning.initializer import largest

Rule = Literal["first", "last", "even", "random", "influence"]


class LayerChoice(FromInputs):
    """Copy layers of the ancestor; repeat some, as LSAMD does, if the descendant has more layers.

    All other parameters come from the ancestor, also the head if the classes agree. It is the control of a selection
    such as LSAMD's: a useful selection must find better layers than a rule. A selection stores no head, so compare
    untrained descendants with a new head.

    ``influence`` keeps the layers with the highest block influence on a few images or texts, which need no labels; see
    :func:`~lgx.methods.weight_subcloning.importance.influence` (ShortGPT, Men et al., 2024).

    Args:
        source: Learngene file of a whole network, folder that ``lgx init`` wrote, checkpoint, or timm model name.
        choice: The layers, counted from 0, e.g. ``0 3 5``; or a rule: ``first``, ``last``, ``even`` (evenly spaced from
            the first to the last), ``random`` or ``influence``. Default: ``influence`` with data, else ``even``.
        seed: Seed of ``random``.
        data: Folder with images or texts, which ``influence`` reads as weight subcloning does.
        images: Number of images or texts.
    """

    method = "layer_choice"

    def __init__(
        self, source: str, choice: str | None = None, seed: int = 0, data: str | None = None, images: int = 64
    ) -> None:
        super().__init__(source, data, images)
        if choice == "influence" and data is None:
            raise UserError("choice influence: needs inputs; give a folder of images or texts (data)")
        self.choice = ("even" if data is None else "influence") if choice is None else choice
        self.seed = seed

    def named(self, architecture: Architecture) -> str:
        """``layer_choice_even``; ``layer_choice`` for a list."""
        return f"{self.method}_{self.choice}" if self._is_rule else self.method

    @property
    def _is_rule(self) -> bool:
        return self.choice in get_args(Rule)

    @cached_property
    def _influence(self) -> Tensor:
        """Block influence of each of the source's layers."""
        return influence(self.loaded.model.eval(), self.of_source, self.sample)

    @property
    def stored_parameters(self) -> int:
        """Parameters of the layers (of a rule: all layers), and all others but the head."""
        of_source = self.of_source
        tensors = take_layers(self.loaded.tensors, self.chosen(of_source.depth), of_source.layers)
        return sum(tensor.numel() for name, tensor in tensors.items() if not name.startswith(of_source.head_prefixes))

    def sizes(self) -> Sizes:
        """Any depth from the number of layers."""
        return Sizes.of_any_depth(self.of_source, 1 if self._is_rule else len(self.chosen(1)))

    def notes(self, architecture: Architecture, taken: Collection[str]) -> tuple[str, ...]:
        """A line with the source layer of each layer, counted from 0; the influence of the source's layers."""
        layers = f"layers    {' '.join(map(str, self.source_layers(architecture.depth)))} of {self.source}"
        if self.choice != "influence":
            return (layers,)
        return layers, f"influence {' '.join(f'{each:.3f}' for each in self._influence.tolist())} on {self.data}"

    def source_layers(self, depth: int) -> list[int]:
        """See :class:`~lgx.initialization.Initializer`."""
        layers = self.chosen(depth)
        return [layers[index] for index in selected(layers, depth)]

    def chosen(self, depth: int) -> list[int]:
        """The ancestor's layers for a descendant of ``depth`` layers, increasing."""
        of_source = self.of_source.depth
        if not self._is_rule:
            return _parse_layers(self.choice, of_source)
        count = min(depth, of_source)
        if self.choice == "influence":
            return largest(self._influence, count)
        return _by_rule(self.choice, count, of_source, self.seed)

    def __call__(self, architecture: Architecture, task: Task | None = None) -> dict[str, Tensor]:
        """The layers, expanded to the descendant's depth."""
        self.check_heads(architecture)
        return take_layers(self.loaded.tensors, self.source_layers(architecture.depth), self.of_source.layers)


def even_layers(total: int, count: int) -> list[int]:
    """``count`` evenly spaced layers of ``total``, with the first and the last; for one layer, the middle."""
    return [round(i * (total - 1) / (count - 1)) for i in range(count)] if count > 1 else [total // 2]


def _by_rule(rule: str, count: int, depth: int, seed: int) -> list[int]:
    if rule == "random":
        return sorted(random.Random(seed).sample(range(depth), count))
    if rule == "even":
        return even_layers(depth, count)
    return list(range(count)) if rule == "first" else list(range(depth - count, depth))


def _parse_layers(text: str, depth: int) -> list[int]:
    """Parse a list of layers such as ``0 3 5``."""
    words: Sequence[str] = text.replace(",", " ").split()
    if words and all(word.isdigit() for word in words):
        layers = [int(word) for word in words]
        if layers == sorted(set(layers)) and layers[-1] < depth:
            return layers
    raise UserError(
        f"choice: expected {', '.join(get_args(Rule))}, or different layers from 0 to {depth - 1} in their order, "
        f"as '0 3 5', got {text!r}"
    )
