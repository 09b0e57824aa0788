"""Read the file that W&B writes offline: records in protobuf, in the log format of LevelDB."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.support.command_line import wait_until

_BLOCK, _HEADER = 32 * 1024, 7


def forget() -> None:
    """End W&B's service, which remembers the variables of the environment that it was started with."""
    if sys.modules.get("wandb") is not None:
        sys.modules["wandb"].teardown()


def read_run(folder: Path) -> dict[str, Any]:
    """Id, project, name, group, config and history of an offline run, once its end is written."""
    wait_until(lambda: "exit_code" in _read(folder), 30, "W&B writes the end of the run")
    return _read(folder)


def _read(folder: Path) -> dict[str, Any]:
    from wandb.proto.wandb_internal_pb2 import Record

    found: dict[str, Any] = {"config": {}, "history": []}
    (file,) = folder.glob("run-*.wandb")
    for data in _records(file.read_bytes()):
        record = Record.FromString(data)
        if record.HasField("run"):
            found |= {"id": record.run.run_id, "project": record.run.project}
            found |= {"name": record.run.display_name, "group": record.run.run_group}
        if record.HasField("config"):
            for item in record.config.update:
                found["config"][item.key or ".".join(item.nested_key)] = json.loads(item.value_json)
        if record.HasField("history"):
            items = record.history.item
            found["history"].append(
                {".".join([i.key, *i.nested_key]).strip("."): json.loads(i.value_json) for i in items}
            )
        if record.HasField("exit"):
            found["exit_code"] = record.exit.exit_code
    return found


def points(run: dict[str, Any], name: str) -> list[tuple[int, Any]]:
    """Step and value of every point of a metric."""
    return [(row["trainer/global_step"], row[name]) for row in run["history"] if name in row]


def _records(content: bytes) -> Iterator[bytes]:
    assert content.startswith(b":W&B")
    place, parts = _HEADER, b""
    while place + _HEADER <= len(content):
        left = _BLOCK - place % _BLOCK
        if left < _HEADER:
            place += left
            continue
        length, kind = int.from_bytes(content[place + 4 : place + 6], "little"), content[place + 6]
        parts += content[place + _HEADER : place + _HEADER + length]
        place += _HEADER + length
        if kind in (1, 4):  # a whole record, or its last part
            yield parts
            parts = b""
