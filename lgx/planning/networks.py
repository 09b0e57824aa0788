"""The networks of a run without their weights: what is trained, and the ancestor that teaches it.

Under torch's ``FakeTensorMode`` tensors have shapes, types and storages, but no memory: a network of any size is run
with the code that trains it, in no time, and what it does can be counted.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import timm
import torch
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode

from lgx.artifacts.pretrained import IMAGENET_MEAN, IMAGENET_STD, PretrainedNetwork, load_pretrained
from lgx.components.teacher import Teacher
from lgx.core.batch import Task
from lgx.hypernet import Hypernet
from lgx.hypernet.low_rank_tensor import LowRankTensor
from lgx.methods.base import Method
from lgx.methods.distillation.method import Distill
from lgx.methods.hypernetworks.base import HypernetMethod
from lgx.methods.hypernetworks.tal import TAL
from lgx.methods.lsamd.method import LSAMD
from lgx.methods.lsamd.super_ancestor import SuperAncestor

N = TypeVar("N", bound=nn.Module)


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Inside the block tensors are made without memory; real ones that take part are taken for such."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


class _OnMeta(TorchFunctionMode):
    """Makes what parameters are made of on the meta device, and leaves the numbers that constructors compute with."""

    factories = frozenset({torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn})

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **{**(kwargs or {}), **({"device": "meta"} if func in self.factories else {})})


def fake(build: Callable[[], N], dtype: torch.dtype = torch.float32) -> N:
    """A network of fake tensors; to be called within :func:`fake_tensors`."""
    with unset_fake_temporarily(), _OnMeta():
        network = build().to("meta", dtype)
    return network.to_empty(device="cpu")


# -- what is trained --------------------------------------------------------------------------------------------------


def network_of(method: Method, dtype: torch.dtype = torch.float32, real: bool = False) -> nn.Module:
    """The network that a method trains, at a random start whatever it starts from.

    Args:
        method: The method; it knows its tasks.
        dtype: Type of its parameters.
        real: Whether it shall have weights. A hypernetwork always has: its own work depends on the graphs that it
            reads, and is small.
    """
    method.weights_follow = True  # no start is read
    if isinstance(method, HypernetMethod):
        with unset_fake_temporarily():
            hypernet = RealPredictions(method.config)
            for parameter, built in zip(hypernet.parameters(), method.build_network().parameters(), strict=True):
                parameter.requires_grad_(built.requires_grad)
            return hypernet.to(dtype)
    build = (lambda: _super_ancestor(method)) if isinstance(method, LSAMD) else method.build_network
    return build().to(dtype) if real else fake(build, dtype)


class RealPredictions(Hypernet):
    """A hypernetwork that predicts with real tensors also where others are fake.

    Attributes:
        predicted: Storage of the last prediction.
        taken_for: The fake tensors that its users take it for.
    """

    predicted: Sequence[Tensor] = ()
    taken_for: Sequence[Tensor] = ()

    def predict_graphs(self, *args: Any, **kwargs: Any) -> list[dict[str, Tensor]]:
        """See :class:`~lgx.hypernet.Hypernet`."""
        mode: Any
        with unset_fake_temporarily() as mode:
            predicted = super().predict_graphs(*args, **kwargs)
            tensors = [tensor for parameters in predicted for tensor in parameters.values()]
            parts = [(t.a, t.b) if isinstance(t, LowRankTensor) else (t,) for t in tensors]
            self.predicted = [part for pair in parts for part in pair]
            self.taken_for = [mode.from_tensor(part) for part in self.predicted] if mode else []
        return predicted


class _OwnBlocks(SuperAncestor):
    """A super ancestor that sends everything through the blocks that are trained, which costs most."""

    def _majority(self, prefers_base: Tensor) -> bool:
        return False


def _super_ancestor(method: LSAMD) -> SuperAncestor:
    """What LSAMD trains, without reading the ancestor; its images are taken to be normalized as the ancestor's are."""
    base = cast(VisionTransformer, method.architecture.replace(kind="classification").build())
    base.reset_classifier(0)
    tasks = list(method.tasks.values())
    method._mean, method._std = tasks[0].mean, tasks[0].std
    return _OwnBlocks(base, tasks, "batch")


# -- the ancestor that teaches ----------------------------------------------------------------------------------------


class Guide:
    """Stands where a method has its ancestor: answers with zeros, in no time.

    Args:
        width: Width of its features, T.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._task: Task | None = None

    def for_task(self, task: Task) -> "Guide":
        """See :class:`~lgx.components.teacher.Teacher`."""
        self._task = task
        return self

    def __call__(self, inputs: Tensor) -> Tensor:
        """Logits, (B, K) or (B, K, H, W)."""
        assert self._task is not None
        pixels = inputs.shape[2:] if self._task.kind == "segmentation" else ()
        return torch.zeros(len(inputs), self._task.num_classes, *pixels, device=inputs.device)

    def features(self, inputs: Tensor) -> Tensor:
        """Features, (B, T)."""
        return torch.zeros(len(inputs), self.width, device=inputs.device)


def ancestor_name(method: Method) -> str | None:
    """The ancestor that guides the training; None without one."""
    if isinstance(method, Distill):
        return method.ancestor
    return method.ancestor if isinstance(method, TAL) and method.alpha > 0 else None


def wants_features(method: Method) -> bool:
    """Whether the ancestor is asked for features, not for logits."""
    return isinstance(method, TAL) and method.guidance != "logits"


def set_guide(method: Method, guide: Any) -> None:
    """Let a method be guided by something else than its ancestor."""
    if isinstance(method, Distill):
        method._teacher = guide
    elif isinstance(method, TAL):
        method._guide = guide


def load_ancestor(name: str, task: Task, real: bool = False) -> Teacher | None:
    """An ancestor by name, without downloading its weights, which do not matter; None where its shape is not at hand.

    Args:
        name: What :func:`lgx.artifacts.pretrained.load_pretrained` reads.
        task: The task that it teaches.
        real: Whether it shall have weights.

    Raises:
        UserError: If its file is damaged.
    """
    make: Callable[[Callable[[], nn.Module]], nn.Module] = (lambda build: build()) if real else fake
    if Path(name.removeprefix("local-dir:").removeprefix("gpt2:")).exists():
        with unset_fake_temporarily():
            source = load_pretrained(name)
        return Teacher(PretrainedNetwork(source.name, make(lambda: source.model), None, source.mean, source.std), task)
    if not timm.is_model(name.split(".")[0]):
        return None
    model: Any = make(lambda: timm.create_model(name, pretrained=False))
    about = model.pretrained_cfg or {}
    mean, std = about.get("mean") or IMAGENET_MEAN, about.get("std") or IMAGENET_STD
    return Teacher(PretrainedNetwork(name, model, None, tuple(mean), tuple(std)), task)
