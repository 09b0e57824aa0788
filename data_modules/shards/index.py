"""The index of a folder of shards: ``index.json`` describes the set and lists the shards of each split."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from data_modules.base import SPLITS, DatasetInfo, Split
from data_modules.files.errors import guarded
from data_modules.files.remote import Place, place_of
from data_modules.splits import Indices
from lgx.errors import UserError
from lgx.host.safety import parse_json, read_json

INDEX = "index.json"
UNKNOWN = -1
"""Number of examples of a shard that was not read yet."""


@dataclass(frozen=True)
class Shard:
    """One tar file.

    Attributes:
        path: The file.
        count: Number of examples in it.
        sha256: Checksum of the file.
        size: Bytes of the file; None if the index does not say.
        tag: What its file system changes with the content of a remote file; empty if unknown.
        classes: Number of classes of the set.
        chosen: Positions of the examples that belong to the split, in order; None if all do.
    """

    path: Place
    count: int
    sha256: str
    classes: int = 1_000_000
    size: int | None = None
    tag: str = ""
    chosen: Indices | None = field(default=None, compare=False)

    @property
    def rows(self) -> range | Indices:
        """Positions in the file of the examples of the split."""
        return range(self.count) if self.chosen is None else self.chosen


def read_index(directory: str | Place) -> tuple[DatasetInfo, dict[Split, list[Shard]]]:
    """Facts of the set and shards of every split that the index of a folder names.

    Raises:
        UserError: If there is no readable index, or a split is incomplete.
    """
    folder = place_of(directory)
    if not (folder / INDEX).exists():
        raise UserError(f"{folder}: no {INDEX}, and no train*.tar in a local folder; expected shards")
    index = load_index(folder)
    splits: dict[Split, list[Shard]]
    info, splits = guarded(lambda: _described(index, folder), str(folder / INDEX), "write the shards again")
    states = {} if isinstance(folder, Path) else folder.states()
    return info, {split: [_compared(shard, states) for shard in shards] for split, shards in splits.items()}


def _described(index: dict[str, Any], folder: Place) -> tuple[DatasetInfo, dict[str, list[Shard]]]:
    """The facts and the shards that an index describes."""
    facts: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in index["info"].items()}
    info, splits = DatasetInfo(**facts), dict[str, list[Shard]]()
    if not (len(info.mean) == len(info.std) == info.in_chans and len(info.sizes) == 3):
        raise ValueError(f"expected mean and std of {info.in_chans} channels and 3 sizes")
    for split, entry in index["splits"].items():
        splits[split] = [
            Shard(folder / s["file"], s["count"], s["sha256"], info.num_classes, s.get("size")) for s in entry["shards"]
        ]
        if sum(shard.count for shard in splits[split]) != entry["count"]:
            raise UserError(f"{folder}: the {split} shards are incomplete; run the command that wrote them again")
    return info, splits


def _compared(shard: Shard, states: dict[str, tuple[int | None, str]]) -> Shard:
    """A shard with its present tag; it must be among the files of its folder, if these are listed, in its size."""
    if not states:
        return shard
    size, tag = states.get(shard.path.name, (None, ""))
    if shard.path.name not in states or (shard.size is not None and size not in (None, shard.size)):
        now = f"has {size:,} bytes instead of {shard.size:,}" if size is not None else "is absent"
        raise UserError(f"shard {shard.path} {now}; run the command that wrote its {INDEX} again")
    return replace(shard, size=shard.size if size is None else size, tag=tag)


def is_complete(directory: Path) -> bool:
    """Whether the index of a folder names all three splits; False without an index.

    Raises:
        UserError: If the index is damaged, or a split that it names is incomplete.
    """
    return (directory / INDEX).exists() and set(read_index(directory)[1]) == set(SPLITS)


def load_index(directory: Place) -> dict[str, Any]:
    """Read ``index.json``.

    Raises:
        UserError: If it is damaged or no index of shards.
    """
    file, remedy = directory / INDEX, "remove the folder and write it again"
    index = read_json(file, remedy) if isinstance(file, Path) else parse_json(file.read_bytes(), str(file), remedy)
    if not isinstance(index, dict) or not index.keys() >= {"info", "splits"}:
        raise UserError(f"{file}: not an index of shards; {remedy}")
    return index
