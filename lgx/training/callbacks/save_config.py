"""Save the configuration of a run."""

from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from lgx.core.provenance import commit
from lgx.host.files import atomic_path
from lgx.host.safety import load_plain
from lgx.training.loggers import log_options
from lgx.training.run_folder import run_folder
from lgx.training.same_run import flat_options, package_versions


class SaveConfig(Callback):
    """Save the configuration as ``config.yaml`` in the run's folder, and in the loggers as hyper-parameters.

    Only ``fit`` saves it: an evaluation must not change the configuration of the run that it evaluates.

    Args:
        text: The configuration in YAML.
        resumed: Whether the run goes on from a checkpoint in its folder.
    """

    def __init__(self, text: str, resumed: bool) -> None:
        self.text, self.resumed = text, resumed

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Save it on the first process."""
        commit()  # cached now, because the repository may change during the run
        folder = run_folder(trainer)
        if folder is None or not trainer.is_global_zero:
            return
        about = "".join(f"# {name} {found}\n" for name, found in package_versions().items())
        with atomic_path(folder / "config.yaml") as temporary:
            temporary.write_text(about + self.text, encoding="utf-8")
        for logger in trainer.loggers:
            log_options(logger, logged_options(self.text), self.resumed)


def logged_options(text: str) -> dict[str, Any]:
    """The flattened configuration, without values that are null, and without loggers, which may hold a password.

    Args:
        text: The configuration in YAML.
    """
    flat = flat_options(load_plain(text))
    return {
        key: value if isinstance(value, int | float | str | bool) else str(value)
        for key, value in flat.items()
        if value is not None and not key.startswith("trainer.logger")
    }
