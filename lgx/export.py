"""Writing models that people use without lgx."""

import json
from pathlib import Path
from typing import Any

import timm
from safetensors.torch import save_file
from timm.models import save_for_hf
from timm.models.vision_transformer import VisionTransformer

import lgx
from lgx.architectures.vit import ViTArchitecture
from lgx.errors import UserError
from lgx.files import atomic_path

WRITTEN = {"config.json", "model.safetensors", "pytorch_model.bin", "README.md"}
"""What a model folder holds."""

TIMM_NAME = "vit_base_patch16_224"
"""A registered name is timm's key to its ViT class; every size comes from the arguments beside it."""


def write_descendant(
    out: str | Path,
    model: VisionTransformer,
    architecture: ViTArchitecture,
    mean: tuple[float, ...] | None = None,
    std: tuple[float, ...] | None = None,
    label_names: tuple[str, ...] | None = None,
    card: dict[str, Any] | None = None,
) -> None:
    """Write a ViT as a timm ``local-dir:`` folder, or its weights alone.

    Layers that share weights are written out one by one, so the result is an ordinary ViT.

    Args:
        out: A folder, or a path ending in ``.safetensors``.
        model: The model, under timm's names.
        architecture: Its description.
        mean: Per-channel mean of its inputs, for timm's ``resolve_data_config``.
        std: Per-channel standard deviation of its inputs.
        label_names: Class names in index order.
        card: Facts for the model card.

    Raises:
        UserError: If the place is taken by something else or cannot be written.
    """
    out = Path(out)
    plain = architecture.replace(stages=None)
    unshared = plain.build("meta")
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in model.state_dict().items()}
    unshared.load_state_dict(tensors, assign=True)
    if out.suffix == ".safetensors":
        with atomic_path(out) as temporary:
            _as_os_error(lambda: save_file(tensors, temporary, metadata={"format": "pt"}))
        return
    _refuse_foreign_folder(out)
    args = plain.timm_args()
    del args["num_classes"]  # timm reads it from the configuration's top level
    reference: Any = timm.create_model(TIMM_NAME, pretrained=False, num_classes=plain.num_classes, **args)
    reference.load_state_dict(unshared.state_dict())
    channels = plain.in_chans
    reference.pretrained_cfg = {
        **reference.pretrained_cfg,
        "input_size": (channels, plain.img_size, plain.img_size),
        "fixed_input_size": True,
        "mean": mean or (0.5,) * channels,
        "std": std or (0.5,) * channels,
        "crop_pct": 1.0,
        "interpolation": "bicubic",
        "classifier": "head",
        "first_conv": "patch_embed.proj",
        "tag": None,
    }
    with atomic_path(out) as temporary:
        config = {"label_names": list(label_names)} if label_names else None
        _as_os_error(
            lambda: save_for_hf(
                reference, str(temporary), model_config=config, model_args=args, safe_serialization=True
            )
        )
        (temporary / "README.md").write_text(_card(plain, card or {}, out))


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
        raise OSError(str(error)) from error


def _card(architecture: ViTArchitecture, facts: dict[str, Any], out: Path) -> str:
    lines = "\n".join(f"| {key} | {json.dumps(value)} |" for key, value in facts.items() if value is not None)
    return f"""---
library_name: timm
tags: [image-classification, timm, learngene]
---

# {out.name}

A vision transformer initialised by lgx {lgx.__version__}: {architecture.spec()}, {architecture.num_classes} classes.

| fact | value |
| --- | --- |
| parameters | {architecture.count_parameters():,} |
| MACs per image | {architecture.count_macs():,} |
{lines}

```python
import timm

model = timm.create_model("local-dir:{out.name}", pretrained=True)
```
"""
