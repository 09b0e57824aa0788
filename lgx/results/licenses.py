"""The license of weights, as far as their source states one."""

import os
from pathlib import Path

import timm

from lgx.artifacts.export.folders import CONFIG
from lgx.artifacts.source_names import FOLDER, TIMM
from lgx.artifacts.start_record import StartRecord
from lgx.host.safety import read_json

UNKNOWN = "unknown"


def license_of(source: str) -> str:
    """License of weights: that of timm's model, or of the folder that ``lgx import`` wrote, also behind starts of it.

    Args:
        source: The name of an ancestor: a timm name, ``timm:NAME,…``, ``hf-hub:timm/NAME``, or a folder.

    Returns:
        The license; ``unknown`` for others, and where none is stated.
    """
    for _ in range(8):  # a start of a start of a start
        record = StartRecord.read(source)
        if record is None:
            break
        source = str(record.arguments.get("source"))
    file = os.path.join(source.removeprefix(FOLDER), CONFIG)
    if os.path.isfile(file):  # unlike Path's, it answers for names that are no paths at all
        about = read_json(Path(file), "write it again")
        config = about.get("pretrained_cfg") if isinstance(about, dict) else None
        return str((config if isinstance(config, dict) else {}).get("license") or UNKNOWN)
    name = source.removeprefix(TIMM).removeprefix("hf-hub:timm/").split(",")[0]
    known = "weights=" not in source and timm.is_model(name.split(".")[0])
    config = timm.get_pretrained_cfg(name) if known else None
    return (config and config.license) or UNKNOWN
