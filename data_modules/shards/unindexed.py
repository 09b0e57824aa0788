"""A user's webdataset shards without an index: count their examples."""

import hashlib
from dataclasses import replace
from pathlib import Path

import numpy as np

from data_modules.base import DatasetInfo, Split
from data_modules.files.remote import Place, RemotePath, place_of
from data_modules.images.class_trees import TREE_NAMES, listed_classes
from data_modules.shards.index import INDEX, UNKNOWN, Shard, read_index
from data_modules.shards.reading import read_table
from data_modules.splits import Indices, stratified_split
from lgx.core.progress import tracked
from lgx.errors import UserError


def read_any_index(directory: str | Place, fraction: float, seed: int) -> tuple[DatasetInfo, dict[Split, list[Shard]]]:
    """The facts and shards of a folder: of its index, else of its tar files if it is local.

    Those are ``<split>*.tar`` or ``<split>/**/*.tar``; an example has one image, and ``cls``, its class index, or
    ``json`` with the class index as ``label``. All headers are read once, and kept in the cache. Without shards of
    ``val`` the share ``fraction`` of the examples of each class of ``train``, drawn by ``seed``, is held out, wherever
    in the shards they are.

    Raises:
        UserError: As :func:`~data_modules.shards.index.read_index`; if a tar file is damaged or without labels; or if
            a class has no training image.
    """
    folder = place_of(directory)
    if isinstance(folder, RemotePath) or (folder / INDEX).exists() or not (files := _files(folder)).get("train"):
        return read_index(folder)
    counted = {split: [_counted(path) for path in tracked(paths, f"counting {split}", unit="shards")]
               for split, paths in files.items()}  # fmt: skip
    labels = {split: np.concatenate([of_shard for _, of_shard in pairs]) for split, pairs in counted.items()}
    splits = {split: [shard for shard, _ in pairs] for split, pairs in counted.items()}
    names = tuple(listed_classes(folder / "classes.txt") or ())
    classes = _count_classes(folder, labels, names)
    if "val" not in splits:
        kept, held = stratified_split(labels["train"], fraction, seed)
        splits["val"], splits["train"] = (_choose(splits["train"], indices) for indices in (held, kept))
    sizes = {split: sum(len(shard.rows) for shard in shards) for split, shards in splits.items()}
    info = DatasetInfo(
        name=folder.resolve().name, num_classes=classes, license="the user's own", source=str(folder),
        sizes=(sizes["train"], sizes["val"], sizes.get("test")), class_names=names,
        splits="the shards of train, val (or a stratified share of the examples of train) and test",
    )  # fmt: skip
    return info, {split: [replace(shard, classes=classes) for shard in splits[split]] for split in splits}


def _files(folder: Path) -> dict[Split, list[Path]]:
    """The tar files of each split that has some."""
    files: dict[Split, list[Path]] = {}
    for split, names in TREE_NAMES.items():
        within = [path for name in names for path in (folder / name).rglob("*.tar")]
        beside = folder.glob(f"{split}*.tar")
        shown = [path for path in (*beside, *within) if not path.name.startswith(".")]  # macOS adds hidden files
        if shown:
            files[split] = sorted(shown)
    return files


def _choose(shards: list[Shard], indices: Indices) -> list[Shard]:
    """The shards with those of their examples that are at ``indices``, counted through all shards."""
    ends = np.cumsum([shard.count for shard in shards])
    parts = np.split(indices, np.searchsorted(indices, ends[:-1]))
    starts = [0, *ends[:-1].tolist()]
    chosen = [replace(shard, chosen=part - start) for shard, part, start in zip(shards, parts, starts, strict=True)]
    return [shard for shard in chosen if len(shard.rows)]


def _count_classes(folder: Path, labels: dict[Split, Indices], names: tuple[str, ...]) -> int:
    """Number of classes: of ``classes.txt``, else all up to the largest label, each of which has a training image."""
    largest = max(int(of_split.max(initial=-1)) for of_split in labels.values())
    if names and largest >= len(names):
        raise UserError(
            f"{folder}: has the label {largest}, but classes.txt names {len(names)} classes, 0 to {len(names) - 1}; "
            "number the labels from 0, or name all classes"
        )
    present = np.unique(labels["train"])
    if not names and len(present) <= max(largest, 0):
        absent = next(k for k, label in enumerate([*present.tolist(), -1]) if k != label)
        raise UserError(
            f"{folder}: labels reach {largest}, but no training image has the label {absent}; number the classes from "
            f"0 without a gap, or name all of them in classes.txt"
        )
    return len(names) or largest + 1


def _counted(path: Path) -> tuple[Shard, Indices]:
    """A shard with the number of its examples, and their labels."""
    table = read_table(Shard(path, UNKNOWN, ""))
    digest = hashlib.sha256(table["label"].tobytes() + table["size"].tobytes()).hexdigest()
    return Shard(path, len(table), digest), table["label"]
