"""Tiny files in the official layout of the Visual Decathlon."""

import io
import json
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from data_modules.suites.decathlon import FACTS, DecathlonTask
from tests.support import fake_data

CLASSES = 3
PARTS = {"train": 12, "val": 6, "test": 6}


def write_task(tree: Path, task: DecathlonTask) -> None:
    """The files of one task in the layout of ``decathlon-1.0``: short side 72 px, category ids from any number on."""
    name, first_id = FACTS[task].folder, 1_000_007
    (tree / "annotations").mkdir(parents=True, exist_ok=True)
    for p, (part, count) in enumerate(PARTS.items()):
        images, labels = [], []
        for i in range(count):
            label, image_id = i % CLASSES, 10_000 * (p + 1) + i
            inner = f"{part}/{label + 1:04d}" if part != "test" else part
            path = tree / "data" / name / inner / f"{i:06d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            fake_data.picture(image_id, (144, 72) if task == "dped" else (72, 72)).save(path)
            file_name = str(path.relative_to(tree))
            images.append({"file_name": file_name, "id": image_id, "width": 72, "height": 72})
            labels.append({"image_id": image_id, "category_id": first_id + label, "id": image_id})
        categories = [{"id": first_id + c, "name": f"class {c}"} for c in range(CLASSES)]
        content: dict[str, Any] = {"images": images, "annotations": labels[::-1], "categories": categories[::-1]}
        if part == "test":
            content = {"images": images}
        target = tree / "annotations" / f"{name}_{part}{'_stripped' if part == 'test' else ''}.json"
        target.write_text(json.dumps(content))


def pack(tree: Path, downloads: Path) -> Path:
    """The three official archives of a tree."""
    downloads.mkdir()
    with tarfile.open(downloads / "decathlon-1.0-devkit.tar.gz", "w:gz") as devkit:
        devkit.add(tree / "annotations", "decathlon-1.0/annotations")
        devkit.addfile(tarfile.TarInfo("decathlon-1.0/README"), io.BytesIO())
    with tarfile.open(downloads / "decathlon-1.0-data.tar.gz", "w:gz") as outer:
        for task in ("dped", "dtd"):
            name = FACTS[task].folder
            inner = io.BytesIO()
            with tarfile.open(fileobj=inner, mode="w") as tar:
                tar.add(tree / "data" / name, name)
            add(outer, f"{name}.tar", inner.getvalue())
    with tarfile.open(downloads / "decathlon-1.0-data-imagenet.tar", "w") as tar:
        tar.add(tree / "data" / "imagenet12", "imagenet12")
    return downloads


def add(archive: tarfile.TarFile, name: str, data: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(data)
    archive.addfile(member, io.BytesIO(data))


def expect_tiny_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Change the recorded numbers of classes and images of every task to those of the tiny files."""
    for task, facts in FACTS.items():
        monkeypatch.setitem(FACTS, task, replace(facts, num_classes=CLASSES, sizes=tuple(PARTS.values())))
