"""Untrained hypernetworks for three tasks, which do or do not distinguish the tasks."""

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from pathlib import Path

import torch

from lgx.architectures import parse_architecture
from lgx.artifacts.learngene import EMBEDDING_PREFIX, Learngene
from lgx.hypernet import Hypernet, HypernetConfig
from tests.support.command_line import ARCH

CONFIG = {
    "width": 16, "layers": 2, "heads": 2, "max_shape": (32, 32, 4, 4), "rank": 4, "max_size": 128, "num_classes": 3,
}  # fmt: skip
BASE = parse_architecture(ARCH, num_classes=3)
FOUR = [BASE.replace(depth=depth) for depth in (1, 2, 3, 4)]
EMBEDDINGS = dict(zip(("circles", "dots", "dunes"), 3 * torch.eye(3), strict=True))
CLASSES = {"circles": 3, "dots": 5, "dunes": 30}


def hypernet_of(tells_tasks: bool) -> Hypernet:
    torch.manual_seed(0)
    hypernet = Hypernet(HypernetConfig(**CONFIG, task_width=3)).eval()
    if tells_tasks:
        for block in hypernet.encoder.blocks:
            torch.nn.init.normal_(block.film.beta.weight, std=2.0)
    return hypernet


def save_learngene(folder: Path, hypernet: Hypernet, tasks: Mapping[str, int] = CLASSES) -> Path:
    tensors = {**hypernet.state_dict(), **{f"{EMBEDDING_PREFIX}{task}": EMBEDDINGS[task] for task in tasks}}
    known = {task: {"name": task, "num_classes": classes} for task, classes in tasks.items()}
    path = folder / "tal.learngene.safetensors"
    Learngene("tal", BASE, tensors, hypernet=hypernet.config.to_dict(), tasks=known).save(path)
    return path


def points_and_words(svg: str) -> tuple[int, list[str | None]]:
    """How many points the figure has, and its text."""
    root = ElementTree.fromstring(svg)
    space = "{http://www.w3.org/2000/svg}"
    clouds = [g for g in root.iter(f"{space}g") if "PathCollection" in g.get("id", "")]
    points = [p for cloud in clouds for p in cloud.iter() if p.tag in (f"{space}path", f"{space}use")]
    return len(points), [text.text for text in root.iter(f"{space}text")]
