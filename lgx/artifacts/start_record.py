"""The record of a network's start, which ``lgx init`` writes and later runs read."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lgx.artifacts.safetensors_files import read_metadata
from lgx.artifacts.source_names import FOLDER, RECORD, SAFETENSORS
from lgx.core.schema import LINE, MAPPING, check_fields
from lgx.host.safety import parse_json, read_json

ARCHITECTURE_KEY = "lgx_architecture"
"""Key of a weights file's metadata that describes its network; shapes do not determine the number of heads."""

_KEY = "lgx_start"
"""Key of the record in the metadata of a weights file."""

_AGAIN = "write it again with `lgx init`"
_FIELDS = {"method": LINE, "initializer": LINE, "arguments": MAPPING}


@dataclass(frozen=True)
class StartRecord:
    """The initializer of a network.

    Attributes:
        method: Name of the method in results.
        initializer: Name of the initializer's class.
        arguments: Its arguments, ``source`` among them.
    """

    method: str
    initializer: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        """Write it into the folder of a network."""
        (folder / RECORD).write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")

    def metadata(self) -> dict[str, str]:
        """The record as metadata of a weights file."""
        return {_KEY: json.dumps(asdict(self))}

    @classmethod
    def read(cls, place: str) -> "StartRecord | None":
        """The record in a folder, with or without ``local-dir:``, or in a weights file.

        Returns:
            The record; None at other places.
        """
        place = place.removeprefix(FOLDER)
        file = os.path.join(place, RECORD)
        if os.path.isfile(file):  # unlike Path's, it accepts names that are not paths
            return cls._of(read_json(Path(file), _AGAIN), file)
        if place.endswith(SAFETENSORS) and os.path.isfile(place):
            text = read_metadata(place).get(_KEY)
            return None if text is None else cls._of(parse_json(text, f"{place}: {_KEY}", _AGAIN), place)
        return None

    @classmethod
    def _of(cls, values: Any, place: str) -> "StartRecord":
        about = check_fields(values, _FIELDS, place, complete=True)
        return cls(about["method"], about["initializer"], about["arguments"])
