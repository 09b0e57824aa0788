"""Checkpoints that are never half-written."""

from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO

from lgx.core.files import atomic_path
from lgx.core.system_failures import as_os_error


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
        with atomic_path(path) as temporary:
            try:
                torch.save(checkpoint, temporary)
            except RuntimeError as error:  # torch's zip writer reports a full disk this way
                raise as_os_error(error) from error
