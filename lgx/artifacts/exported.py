"""Open a model for use: an ONNX file, a program of torch.export, or whatever :mod:`lgx.artifacts.pretrained` loads."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lgx.artifacts.checkpoints import best_of_run
from lgx.artifacts.export.about import About
from lgx.artifacts.export.onnx_file import run_onnx
from lgx.artifacts.export.parity import Program
from lgx.artifacts.export.pt2_file import run_pt2
from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.host.failures import foreign_errors
from lgx.host.program_files import ONNX, PT2

_OPENERS = {ONNX: run_onnx, PT2: run_pt2}
"""Suffix of a file with a program -> what opens it."""


@dataclass(frozen=True)
class ExportedModel:
    """A model that is ready for use.

    Attributes:
        name: The file or folder.
        task: Kind, classes, and the size, channels and normalization of the inputs.
        program: Normalized images (B, C, H, W) or token ids (B, N) -> logits.
    """

    name: str
    task: Task
    program: Program

    def logits(self, inputs: Tensor) -> Tensor:
        """Logits (B, K) of inputs.

        Raises:
            UserError: If the program fails, or gives outputs of another shape.
        """
        with foreign_errors(self.name, "the model does not run", "write it again with `lgx export`"):
            logits = self.program(inputs)
        expected = (len(inputs), self.task.num_classes)
        if tuple(logits.shape[:2]) != expected:
            raise UserError(
                f"{self.name}: gives outputs of shape {tuple(logits.shape)} for {len(inputs)} inputs, but says that it "
                f"has {self.task.num_classes} classes; write it again with `lgx export`"
            )
        return logits.float()


def load_exported(source: str) -> ExportedModel:
    """Open a model.

    Args:
        source: A file ``*.onnx`` or ``*.pt2`` of ``lgx export``, a model folder, the folder of a run, a checkpoint, or
            a learngene file of a whole network.

    Raises:
        UserError: If it does not exist, is damaged, or does not describe its inputs and classes.
    """
    path = Path(source)
    if not path.exists():
        raise UserError(f"{source}: no such file or folder; give what `lgx export` wrote")
    if (opener := _OPENERS.get(path.suffix)) and path.is_file():
        program, texts = opener(path)
        return ExportedModel(source, About.from_texts(texts, source).task, program)
    network = load_pretrained(best_of_run(source))

    def run(inputs: Tensor) -> Tensor:
        with torch.no_grad():
            logits: Tensor = network.model(inputs)
        return logits

    return ExportedModel(source, _task_of(network), run)


def _task_of(network: PretrainedNetwork) -> Task:
    """What a network reads and predicts; a model of timm that lgx cannot describe says it in its configuration."""
    if not network.has_head:
        raise UserError(f"{network.name}: has no trained head, so that it predicts nothing; train a descendant first")
    if network.architecture is not None:
        return About.of(network, network.architecture).task
    model: Any = network.model
    size: Sequence[int] = (model.pretrained_cfg or {}).get("input_size") or (3, 224, 224)
    classes = int(getattr(model, "num_classes", 0))
    task = Task("", classes, in_chans=size[0], img_size=size[-1], mean=network.mean, std=network.std)
    About(task).check(network.name)
    return Task(**{**vars(task), "class_names": network.label_names})
