"""The learngene: what a method learned, in one safetensors file that describes itself."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from lgx.architectures import Architecture, name_of
from lgx.artifacts.safetensors_files import read_header, read_metadata, read_safetensors, write_safetensors
from lgx.artifacts.safety import (
    AGAIN,
    check_weights,
    count_layers,
    described_architecture,
    refuse_non_finite,
)
from lgx.artifacts.source_names import LEARNGENE
from lgx.artifacts.sources import recorded_name
from lgx.core.schema import LINE, MAPPING, NUMBER, at_most, check_fields, list_of, mapping_of, one_of
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host.safety import parse_json

Content = Literal["network", "layers", "templates", "slices", "family", "backbones", "pool", "hypernetwork"]
"""What a learngene holds: a whole network, layers that are expanded to a network, templates of which matrices are made,
slices of a network beside the whole one, a network whose slices are finished networks, the same without a head and with
a map of their vectors, several networks and maps between them, or a hypernetwork."""
SUFFIX = LEARNGENE
TEMPLATES = "templates."
"""Prefix of the names of templates; all other tensors are parameters of the network."""
WHOLE = "whole."
"""Prefix of the names of the whole network's parameters; all other tensors belong to the slices."""
MAP = "projection.summary."
"""Prefix of the names of the map of a network's vectors into its ancestor's space."""
EMBEDDING_PREFIX = "task_embeddings."
"""Prefix of the names of the tensors that are task embeddings."""

_KEY = "lgx"
_FORMAT = 1
_STORAGE = (torch.float16, torch.bfloat16)
"""Types of stored tensors; lgx computes in float32."""
_VERSION = {"format": NUMBER, "lgx_version": LINE}
_DESCRIPTION = {
    "method": LINE,
    "architecture": MAPPING,
    "ancestor": LINE,
    "task": MAPPING,
    "metrics": mapping_of(NUMBER),
    "tasks": mapping_of(MAPPING),
    "content": one_of(*get_args(Content)),
    "trained_widths": list_of(at_most(2**20)),
}


@dataclass(frozen=True)
class Learngene:
    """Tensors and the facts that are needed to use them.

    Attributes:
        method: Name of the method that learned it.
        architecture: The network that the tensors were taken from, with its stages if layers share weights.
        tensors: Parameters under timm's or transformers' names, those that are tied once. The layers of a ViT are
            ``blocks.<i>.*``, where i counts the *learngene's* layers (one per stage if layers share weights). All other
            names are the network's.
        ancestor: The ancestor: a path or a timm name; "" if labels alone were learned from.
        task: The task it was learned on, as :meth:`lgx.core.task.Task.to_dict` gives it.
        metrics: Metrics that were measured when it was saved.
        hypernet: Configuration of the hypernetwork that the tensors are; None if they are a network's parameters.
        tasks: Tasks that a hypernetwork was tuned on, by name, as ``Task.to_dict`` gives them. Their embeddings are the
            tensors ``task_embeddings.<name>``.
        selection: The selected layers (for slices: the order of all layers) and the evidence; None without a selection.
        trained_widths: Widths of the networks that a hypernetwork was trained on; empty where unknown.
        content: Content of the tensors. None: derived from the other attributes. Required if the method stores as many
            layers as its architecture has, but not the network's own layers.
        sources: Digests of the checkpoints from which a command extracted it; empty for a run.
        lgx_version: Version of lgx that wrote the file.
    """

    method: str
    architecture: Architecture
    tensors: dict[str, Tensor]
    ancestor: str = ""
    task: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    hypernet: dict[str, Any] | None = None
    tasks: dict[str, dict[str, Any]] = field(default_factory=dict)
    selection: dict[str, Any] | None = None
    trained_widths: tuple[int, ...] = ()
    content: Content | None = None
    sources: tuple[str, ...] = ()
    lgx_version: str = __version__

    def __post_init__(self) -> None:
        if self.content is None:
            object.__setattr__(self, "content", self._content())
        tied = self.architecture.tied_names()
        if tied:
            once = {name: t for name, t in self.tensors.items() if name.removeprefix(WHOLE) not in tied}
            object.__setattr__(self, "tensors", once)

    def _content(self) -> Content:
        if self.hypernet is not None:
            return "hypernetwork"
        is_whole = self.selection is None and not self.architecture.shares_layers
        return "network" if is_whole and self.num_layers == self.architecture.depth else "layers"

    @property
    def task_embeddings(self) -> dict[str, Tensor]:
        """Embeddings of the tasks that a hypernetwork was tuned on, (T,) each."""
        return {k.removeprefix(EMBEDDING_PREFIX): v for k, v in self.tensors.items() if k.startswith(EMBEDDING_PREFIX)}

    @property
    def weights(self) -> dict[str, Tensor]:
        """The tensors without the task embeddings."""
        return {k: v for k, v in self.tensors.items() if not k.startswith(EMBEDDING_PREFIX)}

    @property
    def num_layers(self) -> int:
        """Number of learngene layers, M."""
        return count_layers(self.tensors, self.architecture.layers)

    @property
    def num_parameters(self) -> int:
        """Number of stored parameters."""
        return sum(t.numel() for t in self.tensors.values())

    def save(self, path: str | Path, writer: str = "") -> None:
        """Write the file atomically.

        Args:
            path: The file.
            writer: The command that writes it, see :func:`is_learngene_of`; empty for a run.

        Raises:
            UserError: If a tensor is not finite, or the file cannot be written.
        """
        refuse_non_finite(self.tensors, str(path))
        about: dict[str, Any] = {"format": _FORMAT, **{k: v for k, v in vars(self).items() if k != "tensors"}}
        about |= {"architecture": self.architecture.to_dict(), "ancestor": recorded_name(self.ancestor)}
        if writer:
            about["written_by"] = writer
        write_safetensors(path, self.tensors, {_KEY: json.dumps(about)})

    @classmethod
    def load(cls, path: str | Path) -> "Learngene":
        """Read a learngene file of any version up to this one; nothing in it is executed.

        Args:
            path: The file.

        Raises:
            UserError: If the file is missing, is no safetensors file, holds no learngene, or a tensor is not finite.
        """
        tensors, metadata = read_safetensors(path)
        about = _about(metadata, str(path))
        check_weights(tensors, str(path))
        tensors = {name: tensor.float() if tensor.dtype in _STORAGE else tensor for name, tensor in tensors.items()}
        return _described(about, tensors, str(path))

    def describe(self) -> str:
        """Describe the learngene in lines for the terminal."""
        measured = ", ".join(f"{k} {v:.4g}" for k, v in self.metrics.items()) or "nothing"
        what = f"{self.num_layers} layers" if self.content in ("network", "layers") else str(self.content)
        if self.selection is not None:
            what += f" ({' '.join(f'blocks.{layer}' for layer in self.selection['layers'])} of the ancestor)"
        return (
            f"learngene of {self.method}: {what}, {self.num_parameters:,} parameters\n"
            f"  network   {name_of(self.architecture)}, {self.architecture.outputs}\n"
            f"  ancestor  {self.ancestor or 'none (trained with labels only)'}\n"
            f"  task      {', '.join(self.tasks) or self.task.get('name', 'unknown')}\n"
            f"  measured  {measured}"
        )


def is_learngene_of(path: str | Path, writer: str) -> bool:
    """Whether a command other than ``lgx fit`` wrote a learngene file."""
    try:
        about = parse_json(read_metadata(path).get(_KEY, "null"), str(path), AGAIN)
    except UserError:
        return False
    return isinstance(about, dict) and about.get("written_by") == writer


def read_maker(path: str | Path) -> tuple[str, Content]:
    """Method and content of a learngene file, read from its header only.

    Raises:
        UserError: If the file is missing, or its description is damaged.
    """
    about = _about(read_header(path), str(path))
    return about["method"], about["content"]


def _about(metadata: Mapping[str, str], path: str) -> dict[str, Any]:
    """The description in a file's metadata."""
    if _KEY not in metadata:
        raise UserError(f"{path}: is a safetensors file without the metadata {_KEY!r}; give a learngene file")
    place = f"{path}: its learngene description is damaged"
    about = check_fields(parse_json(metadata[_KEY], place, AGAIN), _VERSION, place, complete=True)
    if about["format"] > _FORMAT:
        raise UserError(f"{path}: written by lgx {about['lgx_version']}, newer than this {__version__}")
    return check_fields(about, _DESCRIPTION, place, complete=True)


def _described(about: Mapping[str, Any], tensors: dict[str, Tensor], path: str) -> Learngene:
    """The learngene of a file's description and tensors."""
    place = f"{path}: its learngene description is damaged"
    architecture = described_architecture(about["architecture"], place)
    values: dict[str, Any] = {field.name: about.get(field.name) for field in fields(Learngene)}
    values |= {"architecture": architecture, "tensors": tensors, "trained_widths": tuple(about["trained_widths"])}
    values["sources"] = tuple(about.get("sources", ()))
    return Learngene(**values)
