"""Read Lightning and torch checkpoints without running code."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from lgx.errors import UserError
from lgx.host.failures import checkpoint_errors

SUMMARY = "summary.json"
"""File in the folder of a finished run."""

BEST, LAST, FINAL = "best.ckpt", "last.ckpt", "final.ckpt"
"""Checkpoints of a run. The final checkpoint has the weights of a finished run that callbacks changed at its end."""


def weights_of_run(source: str) -> str:
    """The checkpoint with a run's weights if ``source`` is the folder of a run, else ``source`` itself.

    They are the weights that were tested at the end of the run: the best or the last, as its summary says. For an
    unfinished run they are the best so far.
    """
    folder = Path(source) / "checkpoints"
    runs = sorted(path.parent for path in Path(source).glob("seed*/checkpoints"))
    if runs:
        raise UserError(
            f"{source}: contains runs of several seeds; give one of them: {' or '.join(map(str, runs[:3]))}"
        )
    if not folder.is_dir() or (folder.parent / "config.json").exists():
        return source
    try:
        is_last = json.loads((folder.parent / SUMMARY).read_text(encoding="utf-8")).get("weights") == "last"
    except (OSError, ValueError, AttributeError):
        is_last = False
    names = (FINAL, LAST, BEST) if is_last else (BEST, FINAL, LAST)
    file = next((folder / name for name in names if (folder / name).is_file()), None)
    if file is None:
        raise UserError(f"{source}: the run has no checkpoint; train it with `lgx fit`, or give another source")
    return str(file)


def load_checkpoint(path: str | Path, also: Sequence[type] = ()) -> dict[str, Any]:
    """Read a checkpoint with ``weights_only=True``: tensors and plain types, never code.

    Args:
        path: The file.
        also: Other allowed classes; they may only keep attributes.
    """
    path = Path(path)
    if not path.is_file():
        raise UserError(f"{path}: {'is a folder, no' if path.is_dir() else 'no such'} checkpoint")
    with checkpoint_errors(path), torch.serialization.safe_globals([*also]):
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    if not isinstance(checkpoint, dict):
        raise UserError(f"{path}: expected a dictionary, found a {type(checkpoint).__name__}")
    return checkpoint
