"""The learngene: what a method learned, in one safetensors file that describes itself."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

import lgx
from lgx.architectures import Architecture, name_of
from lgx.artifacts.metadata_schema import AGAIN, TASK, check_shapes, count_layers, described_architecture
from lgx.artifacts.pickles import check_checkpoint
from lgx.core.files import atomic_path
from lgx.core.schema import CLASSES, LINE, MAPPING, NUMBER, check_fields, list_of, mapping_of, parse_json
from lgx.core.system_failures import as_os_error
from lgx.errors import UserError

SUFFIX = ".learngene.safetensors"
EMBEDDING = "task_embeddings."
_KEY = "lgx"
_FORMAT = 1
_VERSION = {"format": NUMBER, "lgx_version": LINE}
_DESCRIPTION = {
    "method": LINE,
    "architecture": MAPPING,
    "ancestor": LINE,
    "task": MAPPING,
    "metrics": mapping_of(NUMBER),
}
_SELECTION = {
    "layers": list_of(CLASSES),
    "base_share": mapping_of(list_of(NUMBER)),
    "routing": LINE,
}


@dataclass(frozen=True)
class Learngene:
    """Tensors plus what one must know to use them.

    Attributes:
        method: What it was learned with: ``sws``, ``simple_lg``, ``ancestor``, ...
        architecture: The network that the tensors were taken from; for SWS the auxiliary net with its stages.
        tensors: Parameters under timm's or transformers' names. Layers of a ViT are ``blocks.<i>.*`` with i counting
            *learngene* layers (one per stage for SWS), everything else as in the network.
        ancestor: Where the knowledge came from: a path, a timm name, or "" for labels alone.
        task: The task it was learned on, as :meth:`lgx.core.batch.Task.to_dict` gives it.
        metrics: What was measured when it was saved.
        hypernet: Configuration of the hypernetwork that the tensors are; None where they are a network's layers.
        tasks: Tasks that a hypernetwork was tuned on, by name, as ``Task.to_dict`` gives them; their embeddings are the
            tensors ``task_embeddings.<name>``.
        selection: Layers that were selected over data sets, with the evidence; None where nothing was selected.
        lgx_version: Version that wrote the file.
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
    lgx_version: str = lgx.__version__

    @property
    def task_embeddings(self) -> dict[str, Tensor]:
        """Embeddings of the tasks that a hypernetwork was tuned on, (T,) each."""
        return {k.removeprefix(EMBEDDING): v for k, v in self.tensors.items() if k.startswith(EMBEDDING)}

    @property
    def weights(self) -> dict[str, Tensor]:
        """The tensors without the task embeddings."""
        return {k: v for k, v in self.tensors.items() if not k.startswith(EMBEDDING)}

    @property
    def num_layers(self) -> int:
        """Number of learngene layers, M."""
        return count_layers(self.tensors, self.architecture.layers, "learngene")

    @property
    def num_parameters(self) -> int:
        """Number of stored parameters."""
        return sum(t.numel() for t in self.tensors.values())

    def save(self, path: str | Path) -> None:
        """Write the file, atomically.

        Raises:
            UserError: If the file cannot be written.
        """
        about = {
            "format": _FORMAT,
            "method": self.method,
            "architecture": self.architecture.to_dict(),
            "ancestor": self.ancestor,
            "task": self.task,
            "metrics": self.metrics,
            "hypernet": self.hypernet,
            "tasks": self.tasks,
            "selection": self.selection,
            "lgx_version": self.lgx_version,
        }
        write_safetensors(path, self.tensors, {_KEY: json.dumps(about)})

    @classmethod
    def load(cls, path: str | Path) -> "Learngene":
        """Read any learngene file; nothing in it is executed.

        Raises:
            UserError: If the file is missing, is no safetensors file, or holds no learngene.
        """
        tensors, metadata = read_safetensors(path)
        if _KEY not in metadata:
            raise UserError(f"{path}: a safetensors file, but no learngene (its metadata lack {_KEY!r})")
        place = f"{path}: its learngene description is damaged"
        about = check_fields(parse_json(metadata[_KEY], place, AGAIN), _VERSION, place, complete=True)
        if about["format"] > _FORMAT:
            raise UserError(f"{path}: written by lgx {about['lgx_version']}, newer than this {lgx.__version__}")
        check_fields(about, _DESCRIPTION, place, complete=True)
        tasks = check_fields(about, {"tasks": mapping_of(MAPPING)}, place).get("tasks", {})
        hypernet, selection = about.get("hypernet"), about.get("selection", about.get("search"))  # its name up to 0.1
        learngene = cls(
            method=about["method"],
            architecture=described_architecture(about["architecture"], place),
            tensors=tensors,
            ancestor=about["ancestor"],
            task=check_fields(about["task"], TASK, f"{place}: task"),
            metrics=about["metrics"],
            hypernet=None if hypernet is None else check_fields(hypernet, {}, f"{place}: hypernet"),
            tasks={name: check_fields(task, TASK, f"{place}: task {name!r}") for name, task in tasks.items()},
            selection=None
            if selection is None
            else check_fields(selection, _SELECTION, f"{place}: selection", complete=True),
            lgx_version=about["lgx_version"],
        )
        check_tensors(learngene, str(path))
        return learngene

    def describe(self) -> str:
        """A few lines for the terminal."""
        measured = ", ".join(f"{k} {v:.4g}" for k, v in self.metrics.items()) or "nothing"
        what = f"{self.num_layers} layers" if self.hypernet is None else "a hypernetwork"
        if self.selection is not None:
            what += f" ({' '.join(f'blocks.{layer}' for layer in self.selection['layers'])} of the ancestor)"
        return (
            f"learngene of {self.method}: {what}, {self.num_parameters:,} parameters\n"
            f"  network   {name_of(self.architecture)}, {self.architecture.num_classes} classes\n"
            f"  ancestor  {self.ancestor or 'none (labels alone)'}\n"
            f"  task      {', '.join(self.tasks) or self.task.get('name', 'unknown')}\n"
            f"  measured  {measured}"
        )


def check_tensors(learngene: Learngene, place: str) -> None:
    """Refuse tensors that contradict the description, before anything is computed with them.

    Args:
        learngene: What was read.
        place: The file, for the message.

    Raises:
        UserError: If a parameter has another shape than the architecture says, or is no floating-point number, or the
            embeddings of tasks are not vectors of one width.
    """
    embeddings = {tuple(tensor.shape) for tensor in learngene.task_embeddings.values()}
    if len(embeddings) > 1 or any(len(shape) != 1 for shape in embeddings):
        raise UserError(f"{place}: its task embeddings are not vectors of one width; {AGAIN}")
    for name, tensor in learngene.tensors.items():
        if not tensor.is_floating_point():
            raise UserError(f"{place}: {name} holds {tensor.dtype}, expected floating-point numbers; {AGAIN}")
    if learngene.hypernet is None:
        check_shapes(learngene.weights, learngene.architecture, place, strict=True)


def write_safetensors(path: str | Path, tensors: Mapping[str, Tensor], metadata: dict[str, str]) -> None:
    """Write tensors and metadata, atomically.

    Raises:
        UserError: If the file cannot be written.
    """
    # Tensors that share memory are refused by safetensors.
    apart = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    with atomic_path(path) as temporary:
        try:
            save_file(apart, temporary, metadata=metadata)
        except SafetensorError as error:
            raise as_os_error(error) from error


def read_safetensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Read tensors and metadata.

    Raises:
        UserError: If the file is missing or no intact safetensors file.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    try:
        with safe_open(path, framework="pt") as file:
            tensors, metadata = {k: file.get_tensor(k) for k in file.keys()}, dict(file.metadata() or {})
    except Exception as error:  # safetensors raises its own kind, and whatever a dtype unknown to torch leads to
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"{path}: not an intact safetensors file ({reason}); copy it again, and keep to safetensors: "
            f"pickled files are not read"
        ) from error
    if wrong := next((name for name in tensors if not LINE.holds(name)), None):
        raise UserError(f"{path}: a tensor is called {wrong[:40]!r}, expected {LINE.words}; {AGAIN}")
    return tensors, metadata


def take_layers(state: Mapping[str, Tensor], layers: list[int]) -> dict[str, Tensor]:
    """Make a state dict whose layer i is layer ``layers[i]`` of ``state``; the rest is kept.

    Serves both ways: taking one layer per stage out of a network, and expanding a learngene into a descendant.

    Args:
        state: Parameters under timm's names (``blocks.<i>.…``).
        layers: For each target layer the index of its source layer.

    Returns:
        Copies, so that layers with one source do not share memory.
    """
    taken = {k: v.clone() for k, v in state.items() if not k.startswith("blocks.")}
    for target, source in enumerate(layers):
        prefix = f"blocks.{source}."
        for key, value in state.items():
            if key.startswith(prefix):
                taken[f"blocks.{target}.{key.removeprefix(prefix)}"] = value.clone()
    return taken


def load_checkpoint(path: str | Path, also: Sequence[type] = ()) -> dict[str, Any]:
    """Read a Lightning or torch checkpoint with ``weights_only=True``: tensors and plain types, never code.

    Args:
        path: The file.
        also: Classes that it may hold beside them; of a kind that only keeps attributes.

    Raises:
        UserError: If the file is missing, damaged, or holds anything but tensors and plain types.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such checkpoint")
    try:
        check_checkpoint(path)
        with torch.serialization.safe_globals([*also]):
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises whatever the damage leads to: pickle, zip, key, runtime errors
        reason = str(error)[:200] if type(error) is ValueError else type(error).__name__
        raise UserError(
            f"{path}: not an intact checkpoint of tensors and plain types ({reason}); it was not "
            f"loaded, because anything else could run code"
        ) from error
    if not isinstance(checkpoint, dict):
        raise UserError(f"{path}: holds a {type(checkpoint).__name__}, expected a checkpoint's dictionary")
    return checkpoint
