"""Checkpoints that are never half-written."""

from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO

from lgx.core.files import atomic_path
from lgx.core.foreign import write_errors


class AtomicCheckpointIO(TorchCheckpointIO):
    """Write beside the target and rename, on the same file system.

    Lightning writes local checkpoints to the system's temporary folder and moves them, which is a plain copy where
    that is another file system: a kill in between leaves half a file.
    """

    def load_checkpoint(
        self, path: Any, map_location: Any = lambda storage, _: storage, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Load tensors and plain types, whatever the environment says: anything else could run code."""
        loaded: dict[str, Any] = super().load_checkpoint(path, map_location, weights_only=True)
        return loaded

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Save a checkpoint.

        Raises:
            UserError: If it cannot be written; the old file stays as it was.
        """
        with atomic_path(path) as temporary, write_errors(RuntimeError):  # as torch's zip writer reports a full disk
            torch.save(checkpoint, temporary)
