"""Files of task embeddings, the input of task-aware hypernetworks (TAL, Sec. 4)."""

import json
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from lgx.artifacts.safetensors_files import read_metadata, read_safetensors, write_safetensors
from lgx.artifacts.safety import check_weights
from lgx.core.schema import LINE, MAPPING, at_most, check_fields, mapping_of
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host.safety import parse_json

Control = Literal["permuted", "random"]
_KEY = "lgx_task_embeddings"
_DESCRIPTION = {"ancestor": LINE, "images": mapping_of(at_most(2**62)), "tasks": mapping_of(MAPPING)}


@dataclass(frozen=True)
class TaskEmbeddings:
    """Embeddings of tasks by one ancestor.

    Attributes:
        tensors: Task name -> mean feature over the task's training examples, (T,).
        ancestor: The ancestor that computed the features: a path or a timm name.
        images: Task name -> number of examples.
        tasks: Task name -> the task, as ``Task.to_dict`` gives it. A task of images without classes is missing.
    """

    tensors: dict[str, Tensor]
    ancestor: str = ""
    images: dict[str, int] = field(default_factory=dict)
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Width of the embeddings, T."""
        return len(next(iter(self.tensors.values())))

    def of(self, task: str, where: str) -> Tensor:
        """The embedding of a task, (T,).

        Args:
            task: Name of the task.
            where: Name of the file, for the message.

        Raises:
            UserError: If there is no embedding of this task.
        """
        if task not in self.tensors:
            raise UserError(
                f"{where}: no embedding of task {task}, only of {', '.join(sorted(self.tensors))}; compute it with "
                f"`lgx embed --ancestor {self.ancestor or '…'} --data {task}`"
            )
        return self.tensors[task]

    def control(self, kind: Control) -> "TaskEmbeddings":
        """Control embeddings that do not describe their tasks, to measure the effect of this information.

        Args:
            kind: ``permuted`` gives each task the embedding of the next task, in order of names. ``random`` draws each
                element with a fixed seed from a normal distribution with the element's mean and standard deviation over
                the tasks.

        Returns:
            The same number of embeddings of the same width. Their ancestor's name contains the kind.
        """
        names = sorted(self.tensors)
        stacked = torch.stack([self.tensors[name] for name in names])
        if kind == "permuted":
            drawn = stacked.roll(-1, 0)
        else:
            noise = torch.randn(stacked.shape, generator=torch.Generator().manual_seed(0))
            drawn = stacked.mean(0) + stacked.std(0) * noise.to(stacked)
        return replace(self, tensors=dict(zip(names, drawn, strict=True)), ancestor=f"{self.ancestor} ({kind})")

    def save(self, path: str | Path) -> None:
        """Write a safetensors file with its provenance, atomically.

        Raises:
            UserError: If the file cannot be written.
        """
        about = {"ancestor": self.ancestor, "images": self.images, "tasks": self.tasks, "lgx_version": __version__}
        tensors = {name: tensor.float() for name, tensor in self.tensors.items()}
        write_safetensors(path, tensors, {_KEY: json.dumps(about)})

    @classmethod
    def load(cls, path: str | Path) -> "TaskEmbeddings":
        """Read what ``lgx embed`` wrote.

        Raises:
            UserError: If the file is missing, damaged, or holds something else.
        """
        tensors, metadata = read_safetensors(path)
        shapes = {tuple(tensor.shape) for tensor in tensors.values()}
        if _KEY not in metadata or len(shapes) != 1 or len(shapes.pop()) != 1:
            raise UserError(f"{path}: holds no task embeddings; make them with `lgx embed --ancestor … --data …`")
        check_weights(tensors, str(path))
        place = f"{path}: its description is damaged"
        remedy = "make it again with `lgx embed`"
        about = check_fields(parse_json(metadata[_KEY], place, remedy), _DESCRIPTION, place, complete=True)
        return cls(tensors, about["ancestor"], about["images"], about["tasks"])


def holds_task_embeddings(path: Path) -> bool:
    """Whether ``lgx embed`` wrote a file."""
    return _KEY in read_metadata(path)
