"""Writing models that people use without lgx."""

import json
from pathlib import Path
from typing import Any

import timm
from safetensors.torch import save_file
from timm.models import save_for_hf
from torch import nn

import lgx
from lgx.architectures import ViTArchitecture
from lgx.architectures.zoo import ZooModel
from lgx.core.files import atomic_path
from lgx.core.system_failures import as_os_error
from lgx.errors import UserError

WRITTEN = {"config.json", "model.safetensors", "pytorch_model.bin", "README.md"}
"""What a model folder holds."""

TIMM_NAME = "vit_base_patch16_224"
"""A registered name is timm's key to its ViT class; every size comes from the arguments beside it."""


_DECODING = """\
scores = model(images)[:, 1:].mT.unflatten(2, ({grid}, {grid}))  # of each patch; the class token is left out
logits = torch.nn.functional.interpolate(scores, size=images.shape[2:], mode="bilinear")
"""
"""What is left to do with the output of timm's ViT for segmentation, which scores tokens."""


def write_descendant(
    out: str | Path,
    model: nn.Module,
    architecture: ViTArchitecture | ZooModel,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    label_names: tuple[str, ...] | None = None,
    card: dict[str, Any] | None = None,
) -> None:
    """Write a model as a timm ``local-dir:`` folder, or its weights alone.

    A ViT's layers that share weights are written out one by one, so the result is an ordinary ViT.

    Args:
        out: A folder, or a path ending in ``.safetensors``; torchvision's models have no folder.
        model: The model, under timm's or torchvision's names.
        architecture: Its description.
        mean: Per-channel mean of its inputs, for timm's ``resolve_data_config``.
        std: Per-channel standard deviation of its inputs.
        label_names: Class names in index order.
        card: Facts for the model card.

    Raises:
        UserError: If the place is taken by something else or cannot be written.
    """
    out = Path(out)
    check_place(out, architecture)
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.state_dict().items()}
    if isinstance(architecture, ViTArchitecture):
        architecture = architecture.replace(stages=None)
        architecture.build("meta").load_state_dict(tensors, assign=True)
    if out.suffix == ".safetensors":
        # One key, because several are written in a random order, and the same seed shall give the same bytes.
        decodes = isinstance(architecture, ViTArchitecture) and architecture.kind == "segmentation"
        metadata = {"kind": "segmentation"} if decodes else {"format": "pt"}
        with atomic_path(out) as temporary:
            _as_os_error(lambda: save_file(tensors, temporary, metadata=metadata))
        return
    _refuse_foreign_folder(out)
    args = architecture.timm_args()
    args.pop("num_classes", None)  # timm reads it from the configuration's top level
    name = TIMM_NAME if isinstance(architecture, ViTArchitecture) else architecture.model
    reference: Any = timm.create_model(name, pretrained=False, num_classes=architecture.num_classes, **args)
    reference.load_state_dict(tensors)
    reference.pretrained_cfg = _data_config(reference.pretrained_cfg, architecture, mean, std)
    with atomic_path(out) as temporary:
        config = {"label_names": list(label_names)} if label_names else None
        _as_os_error(
            lambda: save_for_hf(
                reference, str(temporary), model_config=config, model_args=args, safe_serialization=True
            )
        )
        (temporary / "README.md").write_text(_card(architecture, reference, card or {}, out))


def check_place(out: str | Path, architecture: ViTArchitecture | ZooModel) -> None:
    """Refuse a folder for what timm cannot load from one.

    Raises:
        UserError: If the model is torchvision's and ``out`` is no ``.safetensors`` file.
    """
    torchvisions = isinstance(architecture, ZooModel) and architecture.zoo == "torchvision"
    if torchvisions and Path(out).suffix != ".safetensors":
        raise UserError(f"{out}: a folder is for timm's models; give a path ending in .safetensors for torchvision's")


def _data_config(
    config: dict[str, Any],
    architecture: ViTArchitecture | ZooModel,
    mean: tuple[float, ...] | None,
    std: tuple[float, ...] | None,
) -> dict[str, Any]:
    """What timm shall know of a model's inputs and ends; a zoo's model keeps what timm says of it."""
    channels, size = architecture.in_chans, architecture.img_size
    half = (0.5,) * channels
    inputs: dict[str, Any] = {"input_size": (channels, size, size), "tag": None}
    if isinstance(architecture, ViTArchitecture):
        inputs |= {"fixed_input_size": True, "crop_pct": 1.0, "interpolation": "bicubic"}
        inputs |= {"classifier": "head", "first_conv": "patch_embed.proj"}
    elif channels == 3:
        return {**config, **inputs, "mean": mean or config["mean"], "std": std or config["std"]}
    return {**config, **inputs, "mean": mean or half, "std": std or half}


def _refuse_foreign_folder(out: Path) -> None:
    """An existing folder is replaced as a whole, so it must hold a model that was written here, and nothing else."""
    if not out.exists():
        return
    names = {entry.name for entry in out.iterdir()} if out.is_dir() else {out.name}
    if names - WRITTEN or (names and "config.json" not in names) or out.resolve() in (Path.cwd(), *Path.cwd().parents):
        raise UserError(f"{out}: exists and is no model folder that lgx wrote; choose another --out")


def _as_os_error(write: Any) -> None:
    """Writers of other packages report a full disk in their own ways; ours is one."""
    try:
        write()
    except OSError:
        raise
    except Exception as error:
        raise as_os_error(error) from error


def _card(architecture: ViTArchitecture | ZooModel, model: nn.Module, facts: dict[str, Any], out: Path) -> str:
    size = {"parameters": f"{sum(p.numel() for p in model.parameters()):,}"}
    if isinstance(architecture, ViTArchitecture):
        size["MACs per image"] = f"{architecture.count_macs():,}"
        what = f"A vision transformer initialized by lgx {lgx.__version__}: {architecture.spec()}"
    else:
        what = f"{architecture.model} initialized by lgx {lgx.__version__}: {architecture.img_size} px"
    size |= {key: json.dumps(value) for key, value in facts.items() if value is not None}
    lines = "\n".join(f"| {key} | {value} |" for key, value in size.items())
    tag, torch, use = "image-classification", "", ""
    if isinstance(architecture, ViTArchitecture) and architecture.kind == "segmentation":
        tag, torch = "image-segmentation", "import torch\n"
        use = _DECODING.format(grid=architecture.img_size // architecture.patch_size)
    return f"""---
library_name: timm
tags: [{tag}, timm, learngene]
---

# {out.name}

{what}, {architecture.num_classes} classes.

| fact | value |
| --- | --- |
{lines}

```python
import timm
{torch}
model = timm.create_model("local-dir:{out.name}", pretrained=True)
{use}```
"""
