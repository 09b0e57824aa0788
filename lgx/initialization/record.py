"""The record of an initialization: which parameters were given, and which are random."""

from dataclasses import dataclass

from torch import Tensor, nn


@dataclass(frozen=True)
class Initialization:
    """An initialized descendant.

    Attributes:
        model: The model.
        taken: Names of the parameters that the initializer gave.
        random: Names of the parameters that are initialized at random.
        stored: Number of parameters that the initializer stores.
        built: Number of parameters of the descendant.
        notes: Further lines for the terminal.
    """

    model: nn.Module
    taken: tuple[str, ...]
    random: tuple[str, ...]
    stored: int
    built: int
    notes: tuple[str, ...] = ()

    def describe(self) -> str:
        """Describe the initialization in a few lines for the terminal."""
        sizes = {name: p.numel() for name, p in self.model.named_parameters()}
        taken, random = sum(sizes[n] for n in self.taken), sum(sizes[n] for n in self.random)
        lines = (
            f"taken     {taken:,} parameters: {_summary(self.taken)}",
            f"random    {random:,} parameters: {_summary(self.random)}",
            f"stored    {self.stored:,} parameters, built {self.built:,}",
            *self.notes,
        )
        return "\n".join(lines)


def load_parameters(
    model: nn.Module, tensors: dict[str, Tensor], stored: int, notes: tuple[str, ...]
) -> Initialization:
    """Load parameters into a model, and record which ones.

    Args:
        model: The model; parameters that ``tensors`` lacks stay as they are.
        tensors: Parameters with the model's names and shapes.
        stored: Number of parameters that the initializer stores.
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
