"""Write image sets as webdataset shards: a folder of tar files and their ``index.json``."""

import hashlib
import io
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import webdataset as wds
from rich.progress import track

from data_modules.base import DatasetInfo, Split
from data_modules.images.examples import Images
from data_modules.shards.index import INDEX, load_index
from data_modules.splits import Indices
from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.host.images import opaque


def write_shards(
    images: Images,
    directory: str | Path,
    split: Split,
    info: DatasetInfo,
    shard_size: int = 1000,
    progress: bool = False,
) -> Path:
    """Write one split as ``<split>-000000.tar`` ... and list it in ``index.json``.

    Every shard is written to a temporary file and renamed. The index names only shards that are there. An interrupted
    call resumes: a shard whose checksum is in the index is not written again.
    Training examples are stored in a seeded random order, because a reader that streams shuffles only examples that are
    near each other. The same examples give the same bytes.

    Args:
        images: The examples. Files in a format of shards are stored unchanged, all other images as PNG.
        directory: Folder of the shards.
        split: Name of the split.
        info: Facts of the set, stored in the index.
        shard_size: Examples per shard.
        progress: Whether to show a progress bar.

    Raises:
        UserError: If ``directory`` holds shards of another set, or cannot be written.
    """
    directory = Path(directory)
    order = np.random.default_rng(0).permutation(len(images)) if split == "train" else np.arange(len(images))
    labels = np.asarray(images.labels, np.int64)[order]
    plan = {"count": len(images), "shard_size": shard_size, "labels": hashlib.sha256(labels.tobytes()).hexdigest()}
    index: dict[str, Any] = load_index(directory) if (directory / INDEX).exists() else {"version": 1, "splits": {}}
    if index.get("info", {}).get("name", info.name) != info.name:
        raise UserError(f"{directory}: holds shards of {index['info']['name']}, not {info.name}; choose another folder")
    index["info"] = asdict(info)
    entry = index["splits"].get(split, {})
    if {key: entry.get(key) for key in plan} != plan:
        entry = index["splits"][split] = plan | {"shards": []}
    written = {shard["file"]: shard for shard in entry["shards"]}
    entry["shards"] = []
    starts: Iterable[int] = range(0, len(images), shard_size)
    for start in track(starts, f"{info.name} {split}: writing shards") if progress else starts:
        path = directory / f"{split}-{start // shard_size:06d}.tar"
        old = written.get(path.name)
        if old is None or not path.exists() or _sha256(path) != old["sha256"]:
            part = order[start : start + shard_size]
            with atomic_path(path) as temporary:
                _write_tar(temporary, images, part, split, start)
                old = {"file": path.name, "count": len(part), "sha256": _sha256(temporary)}
                old["size"] = temporary.stat().st_size
        entry["shards"].append(old)
        with atomic_path(directory / INDEX) as temporary:
            temporary.write_text(json.dumps(index, indent=1) + "\n", encoding="utf-8")
    return directory / INDEX


def _write_tar(path: Path, images: Images, part: Indices, split: Split, start: int) -> None:
    encoded = getattr(images, "encoded", lambda index: None)
    with path.open("wb") as file, wds.TarWriter(file, encoder=False, mtime=0) as writer:
        for offset, position in enumerate(part.tolist()):
            stored = encoded(position)
            if stored is None:
                image, label = images[position]
                buffer = io.BytesIO()
                opaque(image).save(buffer, "png", compress_level=3)
                stored = buffer.getvalue(), "png"
            else:
                label = int(images.labels[position])
            data, suffix = stored
            writer.write({"__key__": f"{split}-{start + offset:08d}", suffix: data, "cls": str(label).encode()})


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
