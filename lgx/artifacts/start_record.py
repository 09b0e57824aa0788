"""What started the network of a folder that ``lgx init`` wrote: so that its learngene is not forgotten."""

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lgx.artifacts.remote import located
from lgx.core.json_files import read_json
from lgx.core.schema import LINE, MAPPING, check_fields

RECORD = "lgx.json"
"""Name of the file in a model folder."""

_LOCAL = "local-dir:"
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

    @classmethod
    def read(cls, source: str) -> "StartRecord | None":
        """The record in a folder, with or without ``local-dir:``, also of one from elsewhere; None for other sources.

        Raises:
            UserError: If the file is damaged.
        """
        file = Path(located(source).removeprefix(_LOCAL)) / RECORD
        if not os.path.isfile(file):  # unlike Path's, it answers for names that are no paths at all
            return None
        about = check_fields(read_json(file, "write the folder again"), _FIELDS, str(file), complete=True)
        return cls(about["method"], about["initializer"], about["arguments"])
