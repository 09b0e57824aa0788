"""Open a model for use: an ONNX file, or whatever :mod:`lgx.artifacts.pretrained` loads."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from lgx.artifacts.export.onnx_file import run_onnx
from lgx.artifacts.export.program import Program, described_task, task_of
from lgx.artifacts.pretrained import PretrainedNetwork, load_pretrained
from lgx.artifacts.sources import place_in_run
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.host.failures import foreign_errors


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

    @classmethod
    def of(cls, network: PretrainedNetwork, name: str) -> "ExportedModel":
        """A network that was loaded from a file or folder of this name."""
        return cls(name, task_of(network), network.model)

    @torch.no_grad()
    def logits(self, inputs: Tensor) -> Tensor:
        """Logits (B, K) of images (B, C, H, W)."""
        with foreign_errors(self.name, "the model does not run", "write it again with `lgx export`"):
            logits = self.program(inputs)
        if tuple(logits.shape[:2]) != (len(inputs), self.task.num_classes):
            raise UserError(
                f"{self.name}: returns outputs of shape {tuple(logits.shape)} for {len(inputs)} inputs, but its "
                f"metadata has {self.task.num_classes} classes; write it again with `lgx export`"
            )
        if not logits.isfinite().all():
            raise UserError(f"{self.name}: predicts values that are not finite; write it again, or train it again")
        return logits.float()


def load_exported(source: str) -> ExportedModel:
    """Open a model.

    Args:
        source: A file ``*.onnx`` of ``lgx export``, a model folder, the folder of a run, a checkpoint, or a learngene
            file of a whole network.
    """
    if not Path(source).exists():
        raise UserError(f"{source}: no such file or folder; give what `lgx export` wrote")
    if source.endswith(".pt2"):
        raise UserError(
            f"{source}: a program of torch.export may run code; give the run, or export a folder or .onnx file"
        )
    if source.endswith(".onnx"):
        program, texts = run_onnx(source)
        return ExportedModel(source, described_task(texts, source), program)
    return ExportedModel.of(load_pretrained(place_in_run(source)), source)
