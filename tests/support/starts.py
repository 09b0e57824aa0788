"""A sweep with starts on the tiny images."""

from pathlib import Path
from typing import Any

import yaml

from tests.support.command_line import ARCH
from tests.support.sweeps import config_of

QUIET = "enable_progress_bar", "enable_model_summary", "logger"
SMALL = "depth=2,embed_dim=16,num_heads=2,patch_size=4,img_size=16"


def starts_content(images: Path, folder: Path) -> dict[str, Any]:
    """A sweep of a random start, its twin, and a learngene of SWS; its configurations are written to the folder."""
    extra: dict[str, dict[str, Any]] = {"Finetune": {}, "Ancestor": {}, "SWS": {"stages": [2, 2]}}
    for method, own in extra.items():
        tests = {"test_end": method != "Finetune", "test_start": method == "Finetune"}
        config = config_of(method, images, model=own, trainer=dict.fromkeys(QUIET, False), **tests)
        (folder / f"{method}.yaml").write_text(yaml.safe_dump(config))
    learngene = "{runs}/sws/seed{seed}/final.learngene.safetensors"
    return {
        "experiment": "tiny",
        "seeds": [0, 1],
        "config": "Finetune.yaml",
        "ancestor": "{runs}/ancestor/seed{seed}/final.learngene.safetensors",
        "tasks": {"shapes": {"data.root": str(images)}},
        "sizes": {"full": {"model.arch": ARCH}, "half": {"model.arch": SMALL}},
        "budgets": [1, 2],
        "scratch": "random",
        "sources": {
            "ancestor": {"config": "Ancestor.yaml"},
            "sws": {"config": "SWS.yaml", "options": {"model.ancestor": "{runs}/ancestor/seed{seed}"}},
        },
        "starts": {
            "random": {"options": {"model.initializer": "RandomStart"}},
            "twin": {"options": {"model.initializer": "RandomStart"}, "budgets": [1]},
            "sws": {
                "options": {"model.initializer": "StagewiseExpansion", "model.initializer.source": learngene},
                "budgets": [1],
            },
            "pretrained": {
                "options": {"model.initializer": "Pretrained", "model.initializer.source": "{ancestor}"},
                "budgets": [0],
                "sizes": {"whole": {"model.arch": ARCH}},
            },
        },
    }


def write_starts(content: dict[str, Any], folder: Path) -> Path:
    """Write a sweep file with starts."""
    path = folder / "starts.yaml"
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    return path
