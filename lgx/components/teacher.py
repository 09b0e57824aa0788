"""A teacher as a value: never trained, never saved, never in train mode."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from lgx.architectures import GPT2Architecture
from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.core.batch import Task
from lgx.errors import UserError


class Teacher:
    """A frozen network that is no part of the module that holds it.

    Not an ``nn.Module``: assigning it to a LightningModule registers nothing, so its weights are in no optimizer,
    checkpoint, EMA copy or DDP bucket. It follows the device of its inputs and sees its own normalization.

    Args:
        source: The trained network.
        task: The task whose normalization the inputs carry.
    """

    def __init__(self, source: PretrainedNetwork, task: Task) -> None:
        self.name = source.name
        self._model: nn.Module = source.model.requires_grad_(False).eval()
        self._mean, self._std = source.mean, source.std
        self._task = task

    @classmethod
    def load(cls, name: str, task: Task, *, features_only: bool = False) -> "Teacher":
        """Load a teacher for a task.

        Args:
            name: What :func:`lgx.artifacts.pretrained.load_pretrained` reads.
            task: The task it shall teach.
            features_only: Whether its features alone are wanted, so that its classes do not matter.

        Raises:
            UserError: If it cannot be read, or its kind, classes, image size or channels are not the task's.
        """
        source = load_pretrained(name)
        kind = source.architecture.kind if source.architecture else "classification"
        if (kind == "text") != (task.kind == "text"):
            raise UserError(
                f"ancestor {name}: is for {kind}, but task {task.name} is {task.kind}; for text take a GPT-2, for "
                f"images an image model"
            )
        if not source.has_head and not features_only:
            raise UserError(
                f"ancestor {name}: has no head that was trained to classify; adapt it first with "
                f"`lgx fit --model Ancestor`"
            )
        if kind != task.kind and not features_only:
            raise UserError(
                f"ancestor {name}: is for {kind}, but task {task.name} is {task.kind}; adapt it first with "
                f"`lgx fit --model Ancestor --model.head new`"
            )
        architecture = source.architecture
        classes = architecture.num_classes if architecture else getattr(source.model, "num_classes", task.num_classes)
        if classes != task.num_classes and not features_only:
            raise UserError(
                f"ancestor {name}: predicts {classes} classes, but task {task.name} has {task.num_classes}; "
                f"adapt it first with `lgx fit --model Ancestor`"
            )
        if isinstance(architecture, GPT2Architecture):
            architecture.check_texts(task, f"ancestor {name}")
            return cls(source, task)
        if architecture and (architecture.img_size, architecture.in_chans) != (task.img_size, task.in_chans):
            raise UserError(
                f"ancestor {name}: reads {architecture.in_chans} channels of {architecture.img_size} px, but task "
                f"{task.name} gives {task.in_chans} of {task.img_size} px; set data.img_size and data.in_chans to match"
            )
        teacher = cls(source, task)
        try:
            teacher(torch.zeros(1, task.in_chans, task.img_size, task.img_size))
        except (RuntimeError, AssertionError) as error:
            raise UserError(
                f"ancestor {name}: cannot read {task.in_chans} channels of {task.img_size} px "
                f"({str(error).splitlines()[0]}); set data.img_size and data.in_chans to what it was trained on"
            ) from error
        return teacher

    @torch.no_grad()
    def __call__(self, inputs: Tensor) -> Tensor:
        """Logits of the frozen network.

        Args:
            inputs: Images normalized for the task, (B, C, H, W), or token ids, (B, N).

        Returns:
            Logits, (B, K), or (B, K, H, W) of a network for segmentation, without gradient.
        """
        logits: Tensor = self._on(inputs.device)(self._renormalized(inputs))
        return logits

    @property
    def width(self) -> int:
        """Width T of :meth:`features`."""
        return int(self._on(None).num_features)

    @torch.no_grad()
    def features(self, inputs: Tensor) -> Tensor:
        """The class token behind the last norm, or pooled features, as the network has it.

        Of a GPT-2 the mean over the text's own tokens behind the last norm: causal attention gives it no token that a
        pretrained one has made a summary of the text. TAL does not say what it takes.

        Args:
            inputs: Images normalized for the task, (B, C, H, W), or token ids, (B, N).

        Returns:
            Features, (B, T), without gradient.
        """
        model = self._on(inputs.device)
        if self._task.kind == "text":
            mean: Tensor = model.mean_features(inputs)
            return mean
        features: Tensor = model.forward_head(model.forward_features(self._renormalized(inputs)), pre_logits=True)
        return features

    def for_task(self, task: Task) -> "Teacher":
        """The same network, reading inputs that are normalized for another task."""
        other = copy.copy(self)
        other._task = task
        return other

    def _renormalized(self, inputs: Tensor) -> Tensor:
        return renormalize(inputs, self._task, self._mean, self._std)

    def _on(self, device: torch.device | None) -> Any:
        """The network (a timm model or a GPT-2), on a device."""
        if device is not None and next(self._model.parameters()).device != device:
            self._model.to(device)
        return self._model


def renormalize(inputs: Tensor, task: Task, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Turn inputs normalized for ``task`` into inputs normalized with another mean and std.

    Args:
        inputs: (B, C, H, W); token ids, (B, N), are not normalized at all.
        task: Whose ``mean`` and ``std`` the inputs carry.
        mean: The wanted mean, C values.
        std: The wanted standard deviation, C values.

    Returns:
        (B, C, H, W); the inputs themselves where nothing changes.
    """
    if task.kind == "text" or (mean, std) == (task.mean, task.std):
        return inputs
    old_mean, old_std, new_mean, new_std = (
        inputs.new_tensor(values).view(1, -1, 1, 1) for values in (task.mean, task.std, mean, std)
    )
    return (inputs * old_std + old_mean - new_mean) / new_std
