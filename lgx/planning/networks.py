"""The networks of a run without their weights: the trained one and the teacher.

Under torch's ``FakeTensorMode`` tensors have shapes, types and storages, but no memory. The code that trains a network
of any size then runs at once, and its operations can be counted.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode, unset_fake_temporarily
from torch.overrides import TorchFunctionMode

from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.artifacts.source_names import FOLDER, TimmSource
from lgx.artifacts.timm_models import normalization_of
from lgx.components.teacher import Answer, Teacher
from lgx.core.task import Task
from lgx.methods.planned_step import PlannedStep

N = TypeVar("N", bound=nn.Module)


@contextmanager
def fake_tensors() -> Iterator[None]:
    """Inside the block or function, tensors are created without memory; real tensors may take part."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        yield


class _OnMeta(TorchFunctionMode):
    """Creates parameters on the meta device, but not the numbers of constructors."""

    factories = frozenset({torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn})

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **{**(kwargs or {}), **({"device": "meta"} if func in self.factories else {})})


def fake(build: Callable[[], N], dtype: torch.dtype = torch.float32) -> N:
    """Build a network of fake tensors; call it within :func:`fake_tensors`."""
    with unset_fake_temporarily(), _OnMeta():
        network = build().to("meta", dtype)
    first: dict[Tensor, Tensor] = {}
    for module in network.modules():  # each one once; to_empty(recurse=True) fails at the second visit of a shared one
        own = dict(module.named_parameters(recurse=False))
        module.to_empty(device="cpu", recurse=False)
        for name, shared in own.items():  # of tied layers, to_empty makes two parameters out of one
            setattr(module, name, first.setdefault(shared, getattr(module, name)))
    return network


def network_of(step: PlannedStep, dtype: torch.dtype = torch.float32) -> nn.Module:
    """The network that a method trains, at a random start, without reading a file; within :func:`fake_tensors`.

    Args:
        step: The method's step; the method knows its tasks.
        dtype: Type of its parameters; only those of a network that ``needs_memory`` are real.
    """
    if step.needs_memory:
        with unset_fake_temporarily():
            return step.build().to(dtype)
    return fake(step.build, dtype)


class StandInTeacher(Teacher):
    """Replaces a method's teacher in a count: returns zeros, and takes no time.

    Args:
        width: Width of its features, T.
        task: The task that it teaches.
    """

    def __init__(self, width: int, task: Task) -> None:
        self.name, self._task, self._label_names = "stand-in", task, ()
        self._model = SimpleNamespace(num_features=width)

    def for_task(self, task: Task) -> Teacher:
        """The stand-in for another task; for images without labels it keeps its number of classes."""
        return super().for_task(replace(task, num_classes=task.num_classes or self._task.num_classes))

    def _answer(self, part: str, inputs: Tensor, compute: Callable[[Any, Tensor], Answer]) -> Answer:
        """Logits, (B, K), (B, K, H, W) or (B, N, V), features, (B, T), and a single patch, (B, T, 1, 1)."""
        classes, kind = self._task.num_classes, self._task.kind
        sizes = {"segmentation": (classes, *inputs.shape[2:]), "language": (*inputs.shape[2:], classes)}
        logits = torch.zeros(len(inputs), *sizes.get(kind, (classes,)), device=inputs.device)
        summary = torch.zeros(len(inputs), self.width, device=inputs.device)
        answers: dict[str, Answer] = {"logits": (logits,), "both": (summary, summary[:, :, None, None], logits)}
        return answers.get(part, (summary,))


def load_teacher(name: str, task: Task) -> Teacher | None:
    """A teacher by name, without downloading its weights; None if its shape is unknown."""
    if Path(name.removeprefix(FOLDER)).exists():
        with unset_fake_temporarily():
            source = load_pretrained(name)
        network = PretrainedNetwork(source.name, fake(lambda: source.model), None, source.mean, source.std)
        return Teacher(network, task)
    if (named := TimmSource.named(name)) is None:
        return None
    model: Any = fake(named.build)
    return Teacher(PretrainedNetwork(name, model, None, *normalization_of(model)), task)
