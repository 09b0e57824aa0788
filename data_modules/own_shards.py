"""webdataset shards that a user has written: without an index, so that they are counted."""

import hashlib
from dataclasses import replace
from pathlib import Path

from data_modules.base import DatasetInfo, Split
from data_modules.class_trees import listed_classes
from data_modules.official import TREE_NAMES
from data_modules.shard_index import INDEX, UNKNOWN, Shard, read_index, refuse_url
from data_modules.shard_table import ShardTable
from data_modules.shards import read_shard
from lgx.core.progress import tracked
from lgx.errors import UserError

_HELD = 10  # without shards of `val` one of so many training shards is held out, the last ones


def read_any_index(directory: str | Path) -> tuple[DatasetInfo, dict[Split, list[Shard]]]:
    """The facts and shards of a folder: of its index, else of its tar files.

    Those are ``<split>*.tar`` or ``<split>/*.tar``; an example has an image, and ``cls``, its class index, or ``json``
    with the class index as ``label``. All headers are read once, and kept in the cache.

    Args:
        directory: The folder.

    Raises:
        UserError: As :func:`~data_modules.shard_index.read_index`, and if a tar file is damaged or has no labels.
    """
    folder = refuse_url(directory)
    files = {
        split: sorted(path for name in names for path in (*folder.glob(f"{name}*.tar"), *folder.glob(f"{name}/*.tar")))
        for split, names in TREE_NAMES.items()
    }
    if (folder / INDEX).exists() or not files["train"]:
        return read_index(folder)
    splits = {split: [_counted(path) for path in tracked(paths, f"counting {split}", unit="shards")]
              for split, paths in files.items() if paths}  # fmt: skip
    if "val" not in splits:
        held = -(-len(splits["train"]) // _HELD)
        if held == len(splits["train"]):
            raise UserError(f"{folder}: has one shard of train and none of val; write several, or val*.tar")
        splits["val"], splits["train"] = splits["train"][-held:], splits["train"][:-held]
    classes = max(shard.classes for shards in splits.values() for shard in shards)
    names = tuple(listed_classes(folder / "classes.txt") or ())
    sizes = {split: sum(shard.count for shard in shards) for split, shards in splits.items()}
    info = DatasetInfo(
        name=folder.resolve().name,
        num_classes=max(classes, len(names)),
        sizes=(sizes["train"], sizes["val"], sizes.get("test")),
        license="the user's own",
        source=str(folder),
        splits="the shards of train, val (or the last tenth of those of train) and test",
        class_names=names,
    )
    return info, {split: [replace(shard, classes=info.num_classes) for shard in splits[split]] for split in splits}


def _counted(path: Path) -> Shard:
    """A shard with the number of its examples and of the classes up to its largest one."""
    shard = Shard(path, UNKNOWN, "")
    table = ShardTable.of(shard, read_shard(shard, contents=False))
    digest = hashlib.sha256(table.labels.tobytes() + table.sizes.tobytes()).hexdigest()
    return Shard(path, len(table.labels), digest, int(table.labels.max(initial=-1)) + 1)
