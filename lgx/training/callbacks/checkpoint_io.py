"""Write checkpoints in one step, so that no half-written file exists."""

from typing import Any

import torch
from lightning.fabric.plugins import TorchCheckpointIO

from lgx.host.failures import write_errors
from lgx.host.files import atomic_path


class AtomicCheckpointIO(TorchCheckpointIO):
    """Write a checkpoint beside its target and rename it.

    Lightning writes it to the system's temporary folder and moves it. Between two file systems the move is a copy,
    and a kill during the copy leaves half a file.

    Attributes:
        is_restoring: Whether a checkpoint was read whose values are not yet all in place; ``Resume`` ends this.
    """

    is_restoring = False

    def load_checkpoint(
        self, path: Any, map_location: Any = lambda storage, _: storage, weights_only: bool | None = None
    ) -> dict[str, Any]:
        """Load tensors and plain types only; environment variables cannot change this. Other types could run code."""
        loaded: dict[str, Any] = super().load_checkpoint(path, map_location, weights_only=True)
        self.is_restoring = True
        return loaded

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any | None = None) -> None:
        """Save a checkpoint.

        Raises:
            UserError: If it cannot be written; the old file stays unchanged.
        """
        with atomic_path(path) as temporary, write_errors(RuntimeError):  # as torch's zip writer reports a full disk
            torch.save(checkpoint, temporary)
