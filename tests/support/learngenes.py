"""A learngene file for any initializer, made from what its methods declare."""

from pathlib import Path

import torch

from lgx.architectures import Architecture, parse_architecture, vit_only
from lgx.artifacts.learngene import MAP, WHOLE, Learngene
from lgx.hypernet import Hypernet, HypernetConfig
from lgx.initialization import Initializer
from lgx.initialization.expansion import take_layers
from lgx.methods import registry
from lgx.methods.learngene_pool.pool import PoolNetwork, instances_of
from lgx.methods.lets.initializer import random_matrices
from tests.support.command_line import ARCH
from tests.support.images import write_images

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


def start_from(kind: type[Initializer], source: Path) -> Initializer:
    """The initializer, with a few images if it needs some."""
    if kind.method != "snapvit":
        return kind(str(source))  # type: ignore[call-arg]
    images = write_images(source.parent / "photos", {"train": 2})
    return kind(str(source), data=str(images), images=2)  # type: ignore[call-arg]


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
    elif content == "family":
        order = {"layers": list(range(network.depth))}
        learngene = Learngene(method, network, state, task=TASK, selection=order, content="family")
    elif content == "backbones":
        headless, selection = network.replace(num_classes=0), {"layers": list(range(network.depth))}
        width = network.embed_dim
        tensors = headless.build().state_dict() | {f"{MAP}weight": torch.eye(width), f"{MAP}bias": torch.zeros(width)}
        learngene = Learngene(method, headless, tensors, task=TASK, selection=selection, content="backbones")
    elif content == "slices":
        both, order = state | {f"{WHOLE}{k}": t for k, t in state.items()}, {"layers": list(range(network.depth))}
        learngene = Learngene(method, network, both, task=TASK, selection=order, content="slices")
    elif content == "templates":
        narrow = vit_only(network, method)
        width = narrow.embed_dim // narrow.num_heads
        narrow = narrow.replace(depth=2, embed_dim=width, num_heads=1)
        tensors = narrow.build().state_dict() | random_matrices(narrow, vit_only(network, method))
        learngene = Learngene(method, narrow, tensors, task=TASK, content="templates")
    elif content == "pool":
        whole = vit_only(network, method)
        pair = instances_of(whole, whole.head_width, network.depth)
        learngene = Learngene(method, network, PoolNetwork(pair).state_dict(), task=TASK, content="pool")
    elif content == "layers":
        layers = take_layers(state, _LAYERS)
        learngene = Learngene(method, network, layers, task=TASK, selection=_SELECTION, content="layers")
    else:
        tensors = Hypernet(_HYPERNET).state_dict()
        learngene = Learngene(method, network, tensors, task=TASK, hypernet=_HYPERNET.to_dict())
    learngene.save(path)
    return path
