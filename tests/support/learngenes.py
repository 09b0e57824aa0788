"""A learngene file for any initializer, made from what its methods declare."""

from pathlib import Path

import torch

from lgx.architectures import Architecture, parse_architecture
from lgx.artifacts.learngene import WHOLE, Learngene
from lgx.hypernet import Hypernet, HypernetConfig
from lgx.initialization import Initializer
from lgx.initialization.expansion import take_layers
from lgx.methods import registry
from tests.support.command_line import ARCH

NETWORK = parse_architecture(ARCH, num_classes=3)
TASK = {
    "name": "shapes", "num_classes": 3, "class_names": ["circle", "square", "stripe"],
    "mean": [0.1, 0.2, 0.3], "std": [0.4, 0.5, 0.6],
}  # fmt: skip
_LAYERS = [0, 2]
_SELECTION = {"layers": _LAYERS, "base_share": {"shapes": [1.0, 0.0, 1.0, 0.0]}, "routing": "batch"}
_HYPERNET = HypernetConfig(
    width=16, layers=1, heads=2, max_shape=(32, 32, 4, 4), rank=4, max_size=128, num_classes=3, decoder="low_rank"
)


def initializers_with_source() -> list[str]:
    """Class names of all initializers that read a source."""
    return [name for name, kind in registry.initializer_classes().items() if kind.reads_source]


def learners_of(kind: type[Initializer]) -> list[str]:
    """Methods whose learngenes an initializer reads, from those that name it as their own; else ``ancestor``."""
    specs = registry.specs().values()
    return [spec.name for spec in specs if spec.learngene and registry.initializer_class(spec) is kind] or ["ancestor"]


def save_source(
    kind: type[Initializer], path: Path, method: str | None = None, network: Architecture = NETWORK
) -> Path:
    """Write a learngene that an initializer reads, of one of :func:`learners_of`; of the first one by default."""
    method = method or learners_of(kind)[0]
    content = registry.specs()[method].learngene
    torch.manual_seed(0)
    state = network.build().state_dict()
    if content == "network":
        learngene = Learngene(method, network, state, task=TASK)
    elif content == "nested":
        learngene = Learngene(
            method, network, state | {f"{WHOLE}{k}": t for k, t in state.items()}, task=TASK, content="nested"
        )
    elif content == "layers":
        layers = take_layers(state, _LAYERS)
        learngene = Learngene(method, network, layers, task=TASK, selection=_SELECTION, content="layers")
    else:
        tensors = Hypernet(_HYPERNET).state_dict()
        learngene = Learngene(method, network, tensors, task=TASK, hypernet=_HYPERNET.to_dict())
    learngene.save(path)
    return path
