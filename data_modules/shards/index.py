"""The index of a folder of shards: ``index.json`` describes the set and lists the shards of each split."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from data_modules.base import SPLITS, DatasetInfo, Split
from data_modules.files.remote import Place, place_of
from data_modules.splits import Indices
from lgx.core import schema
from lgx.errors import UserError
from lgx.host.safety import parse_json, read_json

INDEX = "index.json"
UNKNOWN = -1
"""Number of examples of a shard that was not read yet."""

_COUNT = schema.at_most(2**40)
_INDEX = {"info": schema.MAPPING, "splits": schema.mapping_of(schema.MAPPING)}
_SPLIT = {"count": _COUNT, "shards": schema.list_of(schema.MAPPING)}
_SHARD = {"file": schema.LINE, "count": _COUNT, "sha256": schema.LINE}
_SIZE = {"size": _COUNT}
"""Shards that were written by an older version lack it."""
_INFO = {
    "name": schema.LINE,
    "num_classes": schema.at_most(1_000_000, 1),
    "sizes": schema.list_of(schema.Field(lambda value: value is None or _COUNT.holds(value), "counts")),
    "license": schema.LINE,
    "source": schema.LINE,
    "splits": schema.LINE,
    "img_size": schema.at_most(65_536, 1),
    "in_chans": schema.Field(lambda value: value in (1, 3), "1 or 3"),
    "mean": schema.NUMBERS,
    "std": schema.POSITIVE,
    "class_names": schema.list_of(schema.Field(lambda value: isinstance(value, str), "texts")),
    "kind": schema.one_of("classification"),
    "metric": schema.LINE,
}


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
    directory = place_of(directory)
    if not (directory / INDEX).exists():
        raise UserError(f"{directory}: no {INDEX}, and no train*.tar in a local folder; expected shards")
    index = load_index(directory)
    try:
        fields: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in index["info"].items()}
        info = DatasetInfo(**fields)
    except TypeError as error:  # a key is missing or unknown
        raise UserError(f"{directory / INDEX}: not an index of shards ({str(error)[:200]}); write it again") from error
    if not (len(info.mean) == len(info.std) == info.in_chans and len(info.sizes) == 3):
        raise UserError(
            f"{directory / INDEX}: expected mean and std of {info.in_chans} channels and 3 sizes; write it again"
        )
    states = {} if isinstance(directory, Path) else directory.states()
    splits: dict[Split, list[Shard]] = {}
    for split, entry in index["splits"].items():
        if bad := next((s["file"] for s in entry["shards"] if Path(s["file"]).name != s["file"]), None):
            raise UserError(f"{directory / INDEX}: shard {bad!r} is a file outside its folder; write the shards again")
        splits[split] = [
            _compared(Shard(directory / s["file"], s["count"], s["sha256"], info.num_classes, s.get("size")), states)
            for s in entry["shards"]
        ]
        if sum(s.count for s in splits[split]) != entry["count"]:
            raise UserError(f"{directory}: the {split} shards are incomplete; run the command that wrote them again")
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
    """Read and check ``index.json``.

    Raises:
        UserError: If it is damaged or no index of shards.
    """
    remedy = "remove the folder and write it again"
    place = f"{directory / INDEX}: not an index of shards"
    file = directory / INDEX
    content = read_json(file, remedy) if isinstance(file, Path) else parse_json(file.read_bytes(), str(file), remedy)
    index = schema.check_fields(content, _INDEX, place, complete=True)
    schema.check_fields(index["info"], _INFO, f"{place}: info")
    for split, entry in index["splits"].items():
        schema.check_fields(entry, _SPLIT, f"{place}: {split}", complete=True)
        for shard in entry["shards"]:
            schema.check_fields(shard, _SHARD, f"{place}: {split}", complete=True)
            schema.check_fields(shard, _SIZE, f"{place}: {split}")
    return index
