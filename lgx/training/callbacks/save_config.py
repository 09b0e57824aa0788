"""Save what identifies a run."""

from dataclasses import asdict
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import MLFlowLogger

from lgx.core.provenance import commit
from lgx.host.files import atomic_path
from lgx.host.safety import load_plain
from lgx.training.run_folder import run_folder
from lgx.training.same_run import IDENTITY, RunIdentity, flat_options, package_versions


class SaveConfig(Callback):
    """Save a run's identity in every checkpoint, its configuration as ``config.yaml`` and as hyper-parameters.

    Only ``fit`` saves it: an evaluation must not change the configuration of the run that it evaluates.

    Args:
        identity: On the first process, which writes checkpoints, it must be complete before training begins.
        resumed: Whether the run goes on from a checkpoint in its folder; MLflow refuses to change a parameter.
    """

    def __init__(self, identity: RunIdentity, resumed: bool) -> None:
        self.identity, self.resumed = identity, resumed

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save the configuration on the first process."""
        commit()  # cached now, because the repository may change during the run
        folder = run_folder(trainer)
        if folder is None or not trainer.is_global_zero:
            return
        about = "".join(f"# {name} {found}\n" for name, found in package_versions().items())
        with atomic_path(folder / "config.yaml") as temporary:
            temporary.write_text(about + self.identity.config, encoding="utf-8")
        for logger in trainer.loggers:
            if not (self.resumed and isinstance(logger, MLFlowLogger)):
                logger.log_hyperparams(logged_options(self.identity.config))

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Add the identity."""
        checkpoint[IDENTITY] = asdict(self.identity)


def logged_options(text: str) -> dict[str, Any]:
    """The flattened configuration, without values that are null, and without loggers, which may hold a password."""
    return {
        key: value if isinstance(value, int | float | str | bool) else str(value)
        for key, value in flat_options(load_plain(text)).items()
        if value is not None and not key.startswith("trainer.logger")
    }
