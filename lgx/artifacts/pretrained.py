"""Load pretrained networks from files, folders, checkpoints and hubs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn

from lgx.architectures import Architecture, ViTArchitecture, name_of, vit_only
from lgx.architectures.building import building_on, fill_buffers
from lgx.architectures.describing import describe_vit
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import WHOLE, Learngene
from lgx.artifacts.safetensors_files import half_type
from lgx.artifacts.safety import (
    check_weights,
    described_architecture,
)
from lgx.artifacts.source_names import FINAL_LEARNGENE, TimmSource
from lgx.artifacts.sources import kind_of
from lgx.artifacts.timm_models import LOCAL, import_timm, load_timm, normalization_of
from lgx.artifacts.transformers_files import is_text_network, read_text_network
from lgx.artifacts.vector_space import Space, read_pooling, read_space
from lgx.core.eval_transforms import resize_of_timm
from lgx.core.schema import check_fields, shortened
from lgx.core.task import AS_STORED, Reading
from lgx.errors import UserError
from lgx.host.failures import timm_errors
from lgx.host.safety import read_json


@dataclass(frozen=True)
class PretrainedNetwork:
    """A trained network.

    Attributes:
        name: Name that the user gave.
        stored: The network with the numbers of its file, which may be of 16 bits, or still on the disk.
        architecture: Its description if it is a ViT or a network of texts, else None.
        mean: Per-channel mean of its inputs; () of a text model.
        std: Per-channel standard deviation of its inputs; () of a text model.
        has_head: Whether it has a trained head.
        label_names: Names of the classes in index order; () if unknown.
        reading: How its images are read.
        unknown_part: Reason of a missing description; empty if there is a description.
        half: Type of 16 bits of a folder's network of texts, which descendants keep; None for float32.
        lacking: Names of parameters that its file lacks, which are random.
        space: Map of its vectors into the space of its ancestor's; None if it has none.
    """

    name: str
    stored: nn.Module
    architecture: Architecture | None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    has_head: bool = True
    label_names: tuple[str, ...] = ()
    reading: Reading = AS_STORED
    unknown_part: str = ""
    half: torch.dtype | None = None
    lacking: tuple[str, ...] = ()
    space: Space | None = None

    @cached_property
    def model(self) -> nn.Module:
        """The network in float32, images (B, C, H, W) or texts (B, 3, N) -> (B, K), or (B, N, V)."""
        is_other = any(p.is_floating_point() and p.dtype != torch.float32 for p in self.stored.parameters())
        return self.stored.float() if is_other else self.stored

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Its trained parameters under timm's or transformers' names."""
        state = self.stored.state_dict() if self.architecture is None else self.architecture.tensors(self.stored)
        return {name: tensor for name, tensor in state.items() if name not in self.lacking}

    def require_architecture(self, purpose: str) -> Architecture:
        """Return the architecture."""
        if self.architecture is None:
            raise UserError(f"{self.name}: {purpose} needs a ViT or a network of texts, but {self.unknown_part}")
        return self.architecture

    def require_vit(self, purpose: str) -> ViTArchitecture:
        """Return the architecture of an image model."""
        return vit_only(self.require_architecture(purpose), f"{self.name}: {purpose}")


def load_pretrained(place: str) -> PretrainedNetwork:
    """Load a trained network.

    Args:
        place: The place of a :class:`~lgx.artifacts.sources.Source`, one of

            - a learngene file, of any name, that holds a whole network,
            - a folder that ``lgx init``, ``lgx import``, ``timm.models.save_for_hf`` or, for a GPT-2,
              ``save_pretrained`` wrote,
            - a Lightning checkpoint ``*.ckpt`` of an lgx run,
            - a timm model name that timm downloads, ``levit_384.fb_dist_in1k`` or ``timm:…``.
    """
    kind = kind_of(place)
    if kind == "weights":
        raise UserError(
            f"{place}: a bare weights file does not name its architecture; write a folder with "
            f"`lgx import timm:NAME --weights {place} --out FOLDER`"
            if Path(place).exists()
            else f"{place}: no such file or folder"
        )
    return _LOADERS[kind](place)


def architecture_of(place: str) -> Architecture:
    """The architecture of a trained network, without a download of timm's weights and without random numbers.

    Args:
        place: As for :func:`load_pretrained`.
    """
    source = TimmSource.named(place) if kind_of(place) in ("timm", "name") else None
    with torch.random.fork_rng(devices=[]):
        if source is None:
            network = load_pretrained(place)
        else:
            with building_on("meta"), timm_errors(place):
                network = _described(place, source.build())
    return network.require_architecture("a default architecture")


def _from_learngene(name: str) -> PretrainedNetwork:
    learngene = Learngene.load(name)
    tensors = learngene.tensors
    if learngene.content == "slices":
        tensors = {name.removeprefix(WHOLE): t for name, t in tensors.items() if name.startswith(WHOLE)}
    elif learngene.content not in ("network", "family"):
        held = "a hypernetwork"
        remedy = f"write a descendant with `lgx init --source {name} --arch …`"
        if learngene.content == "backbones":
            held = "backbones"
            remedy = f"write one of them with `lgx export {name} --params …`"
        elif learngene.content == "pool":
            held = "a pool"
            remedy = f"write one of its networks with `lgx init --source {name} --stitch 0`"
        elif learngene.content == "layers":
            held = f"{learngene.num_layers} layers"
        elif learngene.content == "templates":
            held = "templates"
            remedy = f"a run with `--model.templates {name}` trains a network of any size"
        raise UserError(f"{name}: holds {held} of {learngene.method}, not a whole network; {remedy}")
    return _network(name, learngene.architecture, tensors, learngene.task)


def _from_checkpoint(name: str) -> PretrainedNetwork:
    checkpoint = load_checkpoint(name)
    about, state = checkpoint.get("lgx"), checkpoint.get("state_dict")
    if not isinstance(about, dict) or "architecture" not in about or not isinstance(state, dict):
        raise UserError(f"{name}: not a checkpoint of an lgx run; give a learngene file or a timm folder")
    place = f"{name}: its description is damaged"
    architecture = described_architecture(about["architecture"], place)
    prefix = "network."
    tensors = {k.removeprefix(prefix): v for k, v in state.items() if str(k).startswith(prefix)}
    if about.get("plain_network") is not True:
        raise UserError(f"{name}: not a plain network of its architecture; give {FINAL_LEARNGENE} of that run")
    check_weights(tensors, name)
    return _network(name, architecture, tensors, about.get("task", {}))


def _from_folder(name: str) -> PretrainedNetwork:
    path = Path(name)
    config = path / "config.json"
    if not config.is_file():
        raise UserError(f"{path}: has no config.json; give a model folder of `lgx init`, or the folder of a run")
    about = check_fields(read_json(config, "write the folder again"), {}, str(config))
    if is_text_network(about):
        weights, architecture, lacking, names = read_text_network(about, config)
        network = _network(name, architecture, weights, {"class_names": names})
        has_head = bool(architecture.num_classes) and not any(n.startswith(architecture.head_prefixes) for n in lacking)
        cast(Any, network.stored).pooling = read_pooling(path)
        space = read_space(path)
        return replace(network, has_head=has_head, lacking=lacking, half=half_type(weights), space=space)
    if "model_type" in about and "architecture" not in about:
        raise UserError(
            f"{path}: is a {shortened(about['model_type'])} of transformers, which lgx does not read; give a network "
            f"of texts, or a ViT of timm"
        )
    model = load_timm(f"{LOCAL}{path}")
    with timm_errors(name):  # a configuration may contain anything
        network = _described(name, model)
    reading = network.reading._replace(value_range=tuple(about.get("value_range") or ()))
    network = replace(network, reading=reading, space=read_space(path))
    if about.get("kind") == "multilabel" and network.architecture is not None:  # the head is timm's own
        return replace(network, architecture=network.architecture.replace(kind="multilabel"))
    return network


def _from_timm(name: str) -> PretrainedNetwork:
    if "/" in name.split(":")[0] or Path(name).is_file():
        reason = "unknown kind of file" if Path(name).exists() else "no such file or folder"
        raise UserError(f"{name}: {reason}; give a checkpoint, a learngene file or a model folder")
    model, _ = import_timm(TimmSource.parse(name))
    return _described(name, model)


def _described(name: str, model: Any) -> PretrainedNetwork:
    """A model of timm with the description from its configuration."""
    (architecture, unknown_part), (mean, std) = describe_vit(model), normalization_of(model)
    config: Any = model.pretrained_cfg or {}
    if architecture is not None and architecture.kind == "segmentation":  # timm's own model lacks the decoder
        task = {"mean": mean, "std": std, "class_names": config.get("label_names")}
        return _network(name, architecture, model.state_dict(), task)
    label_names = _label_names(config.get("label_names"), getattr(model, "num_classes", 0))
    reading = Reading(resize=resize_of_timm(config))
    return PretrainedNetwork(name, model, architecture, mean, std, True, label_names, reading, unknown_part)


def _network(
    name: str, architecture: Architecture, tensors: dict[str, Tensor], task: dict[str, Any]
) -> PretrainedNetwork:
    """Build the network and load its checked tensors; a task without mean and std is normalized with 0.5."""
    model = architecture.build("meta")
    try:
        is_tied = bool(getattr(getattr(model, "config", None), "tie_word_embeddings", False))
        model.load_state_dict(tensors, strict=not is_tied, assign=True)
        if is_tied:
            cast(Any, model).tie_weights()
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise UserError(f"{name}: its tensors do not fit {name_of(architecture)}: {first}") from error
    fill_buffers(model)
    label_names = _label_names(task.get("class_names"), architecture.num_classes)
    if not isinstance(architecture, ViTArchitecture):
        return PretrainedNetwork(name, model.eval(), architecture, label_names=label_names)
    channels = architecture.in_chans
    mean: Sequence[float] = task.get("mean") or [0.5] * channels
    std: Sequence[float] = task.get("std") or [0.5] * channels
    return PretrainedNetwork(
        name, model.eval(), architecture, tuple(mean), tuple(std), label_names=label_names, reading=Reading.of(task)
    )


def _label_names(names: Any, classes: Any) -> tuple[str, ...]:
    """Names of the classes; empty unless every class has a name."""
    return tuple(map(str, names)) if isinstance(names, list | tuple) and len(names) == classes else ()


_LOADERS = {
    "learngene": _from_learngene,
    "checkpoint": _from_checkpoint,
    "folder": _from_folder,
    "timm": _from_timm,
    "name": _from_timm,
}
