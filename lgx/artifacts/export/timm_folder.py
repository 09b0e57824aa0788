"""Write image models as folders that timm loads, or as weights files."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import timm
from timm.models import save_for_hf
from torch import Tensor, nn

from lgx.architectures import ViTArchitecture
from lgx.architectures.zoo import ZooModel
from lgx.artifacts.export.card import made, model_card, quoted
from lgx.artifacts.export.folders import WRITER_KEY, check_model_place
from lgx.artifacts.safetensors_files import write_safetensors
from lgx.artifacts.start_record import ARCHITECTURE_KEY, StartRecord
from lgx.core.task import Normalization
from lgx.core.version import __version__
from lgx.errors import UserError
from lgx.host.failures import write_errors
from lgx.host.files import atomic_path

_DECODING = """\
scores = model(images)[:, {prefix}:].mT.unflatten(2, ({grid}, {grid}))  # of each patch, without {prefix} other token(s)
logits = torch.nn.functional.interpolate(scores, size=images.shape[2:], mode="bilinear")
"""
"""Completes the output of timm's ViT for segmentation, which scores tokens."""


@dataclass(frozen=True)
class _Inputs:
    """Normalization of the inputs, per channel; None where unknown."""

    mean: tuple[float, ...] | None
    std: tuple[float, ...] | None


@dataclass(frozen=True)
class _Card:
    """What the model card says beside the sizes: the command that writes it, and facts."""

    writer: str
    facts: dict[str, Any]


def write_descendant(
    out: str | Path,
    model: nn.Module,
    architecture: ViTArchitecture | ZooModel,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    label_names: tuple[str, ...] | None = None,
    card: dict[str, Any] | None = None,
    writer: str = "lgx",
    record: StartRecord | None = None,
) -> None:
    """Write a model as a timm ``local-dir:`` folder, or its weights alone.

    Layers of a ViT that share weights are written one by one, so the result is an ordinary ViT.

    Args:
        out: A folder, or a path ending in ``.safetensors``; a model of torchvision needs such a path.
        model: The model, under timm's or torchvision's names.
        architecture: Its description.
        mean: Per-channel mean of its inputs, for timm's ``resolve_data_config``.
        std: Per-channel standard deviation of its inputs.
        label_names: Class names in index order.
        card: Facts for the model card.
        writer: The command that writes the model, which the file or folder then names.
        record: What started the model, which the file or folder then says.

    Raises:
        UserError: If the place is taken by something that is no model, or cannot be written.
    """
    out = Path(out)
    check_torchvision_out(out, architecture)
    check_model_place(out, writer, force=True)
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.state_dict().items()}
    if isinstance(architecture, ViTArchitecture):
        architecture = architecture.unshared()
        architecture.build("meta").load_state_dict(tensors, assign=True)
    if out.suffix == ".safetensors":
        metadata = _own_kind(architecture) or {"format": "pt"}
        known = Normalization(mean, std).for_channels(architecture.in_chans)._asdict() if mean and std else {}
        inputs = {key: json.dumps(list(values)) for key, values in known.items()}
        start = record.metadata() if record is not None else {}
        form = {ARCHITECTURE_KEY: architecture.spec()} if isinstance(architecture, ViTArchitecture) else {}
        write_safetensors(out, tensors, {**metadata, **inputs, **start, **form, WRITER_KEY: writer})
    else:
        _write_folder(out, tensors, architecture, _Inputs(mean, std), label_names, _Card(writer, card or {}), record)


def check_torchvision_out(out: str | Path, architecture: ViTArchitecture | ZooModel) -> None:
    """Refuse a folder for a model that timm cannot load from one.

    Raises:
        UserError: If the model is torchvision's and ``out`` is no ``.safetensors`` file.
    """
    of_torchvision = isinstance(architecture, ZooModel) and architecture.zoo == "torchvision"
    if of_torchvision and Path(out).suffix != ".safetensors":
        raise UserError(f"{out}: a folder is for timm's models; give a path ending in .safetensors for torchvision's")


def _is_segmentation(architecture: ViTArchitecture | ZooModel) -> bool:
    return isinstance(architecture, ViTArchitecture) and architecture.kind == "segmentation"


def _own_kind(architecture: ViTArchitecture | ZooModel) -> dict[str, str]:
    """The kind of a network that predicts something else than one class of an image; timm does not know it."""
    kind = architecture.kind if isinstance(architecture, ViTArchitecture) else "classification"
    return {} if kind == "classification" else {"kind": kind}


def _write_folder(
    out: Path,
    tensors: dict[str, Tensor],
    architecture: ViTArchitecture | ZooModel,
    inputs: _Inputs,
    label_names: tuple[str, ...] | None,
    card: _Card,
    record: StartRecord | None,
) -> None:
    args = architecture.timm_args()
    args.pop("num_classes", None)  # timm reads it from the configuration's top level
    name = architecture.timm_name if isinstance(architecture, ViTArchitecture) else architecture.model
    reference: Any = timm.create_model(name, pretrained=False, num_classes=architecture.num_classes, **args)
    reference.load_state_dict(tensors)
    reference.pretrained_cfg = _pretrained_config(reference.pretrained_cfg, architecture, inputs)
    config: dict[str, Any] = {"label_names": list(label_names)} if label_names else {}
    config |= _own_kind(architecture)
    with atomic_path(out) as temporary:
        with write_errors():
            save_for_hf(reference, str(temporary), model_config=config, model_args=args, safe_serialization=True)
        (temporary / "README.md").write_text(_card(out, architecture, reference, card), encoding="utf-8")
        if record is not None:
            record.write(temporary)


def _pretrained_config(
    config: dict[str, Any], architecture: ViTArchitecture | ZooModel, inputs: _Inputs
) -> dict[str, Any]:
    """Timm's description of a model's inputs and of its first and last layer; a zoo's model keeps its own."""
    channels, size = architecture.in_chans, architecture.img_size
    shape: dict[str, Any] = {"input_size": (channels, size, size), "tag": None}
    mean, std = (0.5,) * channels, (0.5,) * channels
    if isinstance(architecture, ViTArchitecture):
        shape |= {"fixed_input_size": True, "crop_pct": 1.0, "interpolation": "bicubic"}
    elif channels == 3:
        mean, std = config["mean"], config["std"]
    normalization = Normalization(inputs.mean or mean, inputs.std or std).for_channels(channels)
    return {**config, **shape, **normalization._asdict()}


def _card(out: Path, architecture: ViTArchitecture | ZooModel, model: nn.Module, card: _Card) -> str:
    sizes = {"parameters": f"{sum(p.numel() for p in model.parameters()):,}"}
    if isinstance(architecture, ViTArchitecture):
        sizes["MACs per image"] = f"{architecture.count_macs():,}"
        what = f"A vision transformer {made(card.facts)} by lgx {__version__}: {architecture.spec()}"
    else:
        what = f"{architecture.model} {made(card.facts)} by lgx {__version__}: {architecture.img_size} px"
    tag, imports, use = "image-classification", "import timm\n", ""
    if isinstance(architecture, ViTArchitecture) and _is_segmentation(architecture):
        tag, imports = "image-segmentation", "import timm\nimport torch\n"
        use = "\n" + _DECODING.format(
            grid=architecture.img_size // architecture.patch_size, prefix=architecture.num_prefix_tokens
        ).rstrip("\n")
    code = f"{imports}\nmodel = timm.create_model({quoted(f'local-dir:{out.name}')}, pretrained=True){use}"
    summary = f"{what}, {architecture.num_classes} classes."
    return model_card(out.name, "timm", f"{tag}, timm, learngene", summary, sizes, card.facts, code, card.writer)
