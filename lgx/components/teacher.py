"""A frozen network that a loss compares with."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from lgx.architectures.class_order import class_order
from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.components.features import Features, before_head, features_and_logits
from lgx.core.eval_transforms import renormalize
from lgx.core.task import Task, outputs_in_words, size_text
from lgx.errors import UserError

Answer = tuple[Tensor, ...]
"""Tensors whose first dimension is the batch, (B, …)."""


class TeacherRequest(NamedTuple):
    """The teacher that a method's loss compares with.

    Attributes:
        source: What :func:`lgx.artifacts.pretrained.load_pretrained` reads.
        task: The task that it teaches.
        features_only: Whether only features are compared, so that its classes do not matter.
    """

    source: str
    task: Task
    features_only: bool = False


class Teacher:
    """A frozen network that a loss compares with, usually the ancestor.

    It is not an ``nn.Module``. A LightningModule that holds it therefore registers no submodule: its weights are in no
    optimizer, checkpoint, EMA copy or DDP bucket, and it never switches to train mode. It uses device and precision of
    the images, and converts them to its normalization.

    Args:
        source: The trained network.
        task: The task whose normalization the inputs have.

    Attributes:
        name: Name or path that the network was loaded from.
    """

    def __init__(self, source: PretrainedNetwork, task: Task) -> None:
        self.name = source.name
        self._model: Any = source.model.requires_grad_(False).eval()
        self._mean, self._std, self._label_names = source.mean, source.std, source.label_names
        self._task = task

    @classmethod
    def of(cls, source: PretrainedNetwork, task: Task, *, features_only: bool = False) -> "Teacher":
        """A trained network as the teacher of a task.

        Args:
            source: The network.
            task: The task to teach.
            features_only: Whether only :meth:`features` will be used; then its classes may differ from the task's.
        """
        check_kind(source, task, features_only)
        if source.architecture is not None:
            source.architecture.check_inputs(task, f"ancestor {source.name}")
            return cls(source, task)
        teacher = cls(source, task)
        read = teacher.features if features_only else teacher
        try:
            read(torch.zeros(1, *task.image_shape))
        except (RuntimeError, AssertionError) as error:
            raise UserError(
                f"ancestor {source.name}: cannot read {task.in_chans} channels of {size_text(task.img_size)} px "
                f"({str(error).splitlines()[0]}); set data.img_size and data.in_chans to the values of its training"
            ) from error
        return teacher

    @classmethod
    def requested(cls, request: TeacherRequest) -> "Teacher":
        """Load the teacher that a method requests."""
        return cls.of(load_pretrained(request.source), request.task, features_only=request.features_only)

    @property
    def model(self) -> nn.Module:
        """The frozen network, a model of timm or transformers, on the device where it was last used."""
        return cast(nn.Module, self._model)

    @property
    def width(self) -> int:
        """Width T of :meth:`features`, after the hidden layer of the head, if any."""
        return int(getattr(self._model, "head_hidden_size", self._model.num_features))

    @property
    def widths(self) -> tuple[int, int]:
        """Widths of summary and patches of :meth:`features_and_logits`."""
        return self.width, int(self._model.num_features)

    @property
    def num_parameters(self) -> int:
        """Number of parameters of the network."""
        return sum(parameter.numel() for parameter in self._model.parameters())

    @torch.no_grad()
    def __call__(self, inputs: Tensor) -> Tensor:
        """Predict logits.

        Args:
            inputs: Images normalized for the task, (B, C, H, W), or texts, (B, 3, N).

        Returns:
            Logits of the task's classes in their order, (B, K), (B, K, H, W) for segmentation, or (B, N, V) for next
            tokens, without gradient.
        """
        logits = self._answer(inputs, lambda model, x: (model(x),))[0]
        order = class_order(self._label_names, self._task.class_names, f"ancestor {self.name}")
        return logits if order is None else logits[:, order]

    @torch.no_grad()
    def features(self, inputs: Tensor) -> Tensor:
        """Compute the features that precede the classification head.

        For an image model these are the class token after the last norm, or the pooled features if it pools. Of a
        text they are the mean, after the last norm, over its tokens without padding, or what a sentence encoder's
        pooling says: attention is causal, so no single token of a pretrained GPT-2 is trained to summarize the text.
        The TAL paper does not say which features of a GPT-2 it uses.

        Args:
            inputs: Images normalized for the task, (B, C, H, W), or texts, (B, 3, N).

        Returns:
            Features, (B, T), without gradient.
        """
        return self._answer(inputs, lambda model, x: (before_head(model, x),))[0]

    @torch.no_grad()
    def features_and_logits(self, inputs: Tensor, real: Tensor | None = None) -> tuple[Features, Tensor]:
        """Summary, patches and logits (B, K) in the network's order, in one pass.

        Args:
            inputs: Images normalized for the task, (B, C, H, W), or texts, (B, 3, N).
            real: Which tokens count, (B, N); None for images.

        Raises:
            UserError: If images have no grid of patches.
        """

        def both(model: Any, x: Tensor) -> Answer:
            features, logits = features_and_logits(model, x, real)
            return *features, logits

        summary, patches, logits = self._answer(inputs, both)
        return Features(summary, patches), logits

    def for_task(self, task: Task) -> "Teacher":
        """A teacher with the same network for inputs with another task's normalization."""
        other = copy.copy(self)
        other._task = task
        return other

    def _answer(self, inputs: Tensor, compute: Callable[[Any, Tensor], Answer]) -> Answer:
        """The network's outputs for inputs (B, ...)."""
        model = self._model
        renormalized = renormalize(inputs, self._task, self._mean, self._std)
        parameter: Tensor = next(model.parameters())
        dtype = inputs.dtype if inputs.is_floating_point() else parameter.dtype  # token ids have no floating-point type
        if (parameter.device, parameter.dtype) != (inputs.device, dtype):
            model.to(inputs.device, dtype)
        return compute(model, renormalized)


def check_kind(source: PretrainedNetwork, task: Task, features_only: bool = False) -> None:
    """Refuse a network whose kind, head or classes do not fit the task."""
    name, architecture = source.name, source.architecture
    kind = architecture.kind if architecture else "classification"
    is_other = bool(architecture and architecture.reads_text) != task.reads_text
    if is_other or (kind != task.kind and not features_only):
        fitting = "choose a network of transformers for text and an image model for images"
        remedy = fitting if is_other else _adapting(source)
        raise UserError(f"ancestor {name}: is for {kind}, but task {task.name} is {task.kind}; {remedy}")
    if features_only:
        return
    if not source.has_head:
        raise UserError(f"ancestor {name}: has no trained classifier; {_adapting(source)}")
    classes = architecture.num_classes if architecture else getattr(source.model, "num_classes", task.num_classes)
    if classes != task.num_classes:
        raise UserError(
            f"ancestor {name}: predicts {outputs_in_words(kind, classes)}, but task {task.name} has "
            f"{task.num_classes}; {_adapting(source)}"
        )
    class_order(source.label_names, task.class_names, f"ancestor {name}")


def _adapting(source: PretrainedNetwork) -> str:
    """How a network learns another task."""
    if source.architecture is None:
        return "train it on the task first, with its own library"
    return (
        f"adapt it first: fit an Ancestor from it on this data (--model Ancestor --model.head new --model.initializer "
        f"Pretrained --model.initializer.source {source.name})"
    )
