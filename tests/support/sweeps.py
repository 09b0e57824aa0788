"""Sweep files of tiny runs, and the configurations that they name."""

from pathlib import Path
from typing import Any

import yaml

from tests.support.command_line import ARCH

LEARNGENE = "{runs}/a/seed0/final.learngene.safetensors"


def config_of(method: str, images: Path, data: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A configuration of one epoch on images; keys of ``model`` and ``trainer`` are added to the usual ones."""
    adamw = {"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.003}}
    model, trainer = more.pop("model", {}), more.pop("trainer", {})
    options = {"root": str(images), "img_size": 16, "batch_size": 16, **(data or {})}
    return {
        "model": {"class_path": method, "init_args": {"arch": ARCH, "optimizer": adamw, **model}},
        "data": {"class_path": "ImageFolderData", "init_args": options},
        "trainer": {"max_epochs": 1, "accelerator": "cpu", "devices": 1, "enable_progress_bar": False, **trainer},
        **more,
    }


def write_chain(
    folder: Path, images: Path, options: dict[str, Any] | None = None, slow: dict[str, Any] | None = None, **shared: Any
) -> Path:
    """A sweep file of an ancestor ``a`` and a run ``f`` from it; ``slow`` are keys of the first's trainer."""
    for method in ("Ancestor", "Finetune"):
        own = {"trainer": slow} if slow and method == "Ancestor" else {}
        config = config_of(method, images, **{"test_end": True, **shared, **own})
        (folder / f"{method}.yaml").write_text(yaml.safe_dump(config))
    start = {"model.initializer": "Pretrained", "model.initializer.source": LEARNGENE}
    return write_sweep(
        folder,
        {"name": "a", "config": "Ancestor.yaml", "options": options or {}},
        {"name": "f", "config": "Finetune.yaml", "options": start},
    )


def write_sweep(folder: Path, *runs: dict[str, Any], seeds: tuple[int, ...] = (0,)) -> Path:
    """Write ``sweep.yaml`` of the experiment ``s``."""
    content = {"experiment": "s", "seeds": list(seeds), "runs": list(runs)}
    (folder / "sweep.yaml").write_text(yaml.safe_dump(content, sort_keys=False))
    return folder / "sweep.yaml"
