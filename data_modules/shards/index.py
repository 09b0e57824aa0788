"""The index of a folder of shards: ``index.json`` describes the set and lists the shards of each split."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from data_modules.base import SPLITS, DatasetInfo, Split
from data_modules.files.errors import guarded
from data_modules.files.remote import Place, RemotePath, place_of
from data_modules.splits import Indices
from lgx.errors import UserError
from lgx.host.safety import check_file, parse_json, read_json

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
        classes: Number of classes of the set.
        size: Bytes of the file.
        chosen: Positions of the examples that belong to the split, in order; None if all do.
    """

    path: Place
    count: int
    sha256: str
    classes: int = 1_000_000
    size: int = 0
    chosen: Indices | None = field(default=None, compare=False)

    @property
    def rows(self) -> range | Indices:
        """Positions in the file of the examples of the split."""
        return range(self.count) if self.chosen is None else self.chosen

    def open(self) -> BinaryIO:
        """Open the file, or its local copy."""
        if isinstance(self.path, RemotePath):
            return self.path.open(self.sha256, self.size)
        check_file(self.path)
        return self.path.open("rb", buffering=0)


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
    return info, splits


def _described(index: dict[str, Any], folder: Place) -> tuple[DatasetInfo, dict[str, list[Shard]]]:
    """The facts and the shards that an index describes."""
    facts: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in index["info"].items()}
    info = DatasetInfo(**facts)
    splits = dict[str, list[Shard]]()
    if not (len(info.mean) == len(info.std) == info.in_chans and len(info.sizes) == 3):
        raise ValueError(f"expected mean and std of {info.in_chans} channels and 3 sizes")
    for split, entry in index["splits"].items():
        splits[split] = [
            Shard(folder / s["file"], s["count"], s["sha256"], info.num_classes, s["size"]) for s in entry["shards"]
        ]
        if sum(shard.count for shard in splits[split]) != entry["count"]:
            raise UserError(f"{folder}: the {split} shards are incomplete; run the command that wrote them again")
    files = Counter(shard.path.name for shards in splits.values() for shard in shards)
    name, times = files.most_common(1)[0] if files else ("", 1)
    if times > 1:
        raise UserError(f"{folder / INDEX}: lists {name} {times} times; write the shards again")
    return info, splits


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
    file = directory / INDEX
    remedy = "remove the folder and write it again"
    if isinstance(file, Path) and not file.is_file():
        raise UserError(f"{file}: not a file; {remedy}")
    index = read_json(file, remedy) if isinstance(file, Path) else parse_json(file.read_bytes(), str(file), remedy)
    if not isinstance(index, dict) or not index.keys() >= {"info", "splits"}:
        raise UserError(f"{file}: not an index of shards; {remedy}")
    return index
