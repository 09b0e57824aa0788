"""Read Lightning and torch checkpoints without running code."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from lgx.artifacts.safety import check_pickle
from lgx.errors import UserError
from lgx.host.failures import checkpoint_errors

BEST = Path("checkpoints", "best.ckpt")
"""The best checkpoint below the folder of a run."""


def best_of_run(source: str) -> str:
    """The best checkpoint of a run if ``source`` is the folder of a run, else ``source`` itself.

    Raises:
        UserError: If the run has no best checkpoint.
    """
    folder = Path(source)
    if not (folder / BEST.parent).is_dir() or (folder / "config.json").exists():
        return source
    if not (folder / BEST).is_file():
        raise UserError(f"{source}: the run has no {BEST}; train it with `lgx fit`, or give another checkpoint")
    return str(folder / BEST)


def load_checkpoint(path: str | Path, also: Sequence[type] = ()) -> dict[str, Any]:
    """Read a checkpoint with ``weights_only=True``: tensors and plain types, never code.

    Args:
        path: The file.
        also: Further classes that it may hold; they must do nothing but keep attributes.

    Raises:
        UserError: If the file is missing or damaged, or holds anything but tensors and plain types.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: no such checkpoint")
    with checkpoint_errors(path):
        check_pickle(path)
        with torch.serialization.safe_globals([*also]):
            checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(checkpoint, dict):
        raise UserError(f"{path}: holds a {type(checkpoint).__name__}, expected a checkpoint's dictionary")
    return checkpoint
