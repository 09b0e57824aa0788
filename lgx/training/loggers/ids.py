"""The ids by which W&B and MLflow know a run; a resumed or evaluated run finds them in its folder."""

import hashlib
import json
import re
from pathlib import Path

from lgx.errors import UserError
from lgx.host.files import atomic_path
from lgx.host.safety import read_json

FILE = "loggers.json"
_REMEDY = "delete it, so that the loggers start new runs"
_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


class LoggerIds:
    """Ids of a run, in ``loggers.json`` in its folder.

    Args:
        folder: The run's folder.

    Raises:
        UserError: If the file is damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE
        self._ids: dict[str, str] = {}
        if self._file.exists():
            found = read_json(self._file, _REMEDY)
            if not isinstance(found, dict) or not all(isinstance(v, str) and _ID.fullmatch(v) for v in found.values()):
                raise UserError(f"{self._file}: expected a mapping from loggers to ids; {_REMEDY}")
            self._ids = found

    def get(self, key: str) -> str | None:
        """The id under a key; None if there is none yet."""
        return self._ids.get(key)

    def keep(self, key: str, value: str) -> None:
        """Keep an id under a key."""
        if self._ids.get(key) != value:
            self._ids[key] = value
            with atomic_path(self._file) as temporary:
                temporary.write_text(json.dumps(self._ids, indent=2) + "\n", encoding="utf-8")


def wandb_key(entity: str | None, project: str) -> str:
    """Key of a project of W&B."""
    return f"wandb {entity or ''}/{project}"


def mlflow_key(uri: str | None) -> str:
    """Key of a store of MLflow: a hash, because a URI may hold a password.

    Args:
        uri: Tracking URI; None for the database in the run's folder, which may be moved.
    """
    return "mlflow" if uri is None else f"mlflow {hashlib.sha256(uri.encode()).hexdigest()[:16]}"
