"""Save the configuration of a run."""

from functools import cached_property
from typing import Any, cast

from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.cli import SaveConfigCallback

from lgx.core.provenance import commit
from lgx.core.task import shared_metric
from lgx.host.files import atomic_path
from lgx.host.safety import load_plain
from lgx.training.callbacks.contract import package_versions
from lgx.training.configuration import configuration_text
from lgx.training.loggers import log_options
from lgx.training.run_folder import run_folder
from lgx.training.run_parser import RunParser

_SHOWN = (
    "model",
    "data",
    "seed_everything",
    "trainer.max_",
    "trainer.precision",
    "trainer.accumulate",
    "trainer.gradient_clip",
)
"""Beginnings of the keys that TensorBoard's table of hyper-parameters shows."""

_MECHANICS = (
    "data.root",
    "data.cache_gib",
    "data.in_memory",
    "data.num_workers",
    "data.worker_timeout",
    "data.shuffle_buffer",
    "model.compile",
)
"""Keys among these that do not influence what is learned; the table is alphabetical, and they would come first."""


_OF_LOGGERS = ("logger", "trainer.logger")


class SaveConfig(SaveConfigCallback):
    """Save the configuration as ``config.yaml`` in the run's folder, and in the loggers as hyper-parameters.

    Only ``fit`` saves it: an evaluation must not change the configuration of the run that it evaluates.
    """

    @cached_property
    def text(self) -> str:
        """The configuration as text."""
        return configuration_text(cast(RunParser, self.parser), self.config)

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Save once, on the first process, when training."""
        commit()  # cached now, because the repository may change during the run
        if stage == "fit" and trainer.is_global_zero and not self.already_saved:
            self.save_config(trainer, pl_module, stage)
            self.already_saved = True

    def save_config(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write the file and log it."""
        text = self.text
        about = "".join(f"# {name} {found}\n" for name, found in package_versions().items())
        folder = run_folder(trainer)
        if folder is None:
            return
        with atomic_path(folder / "config.yaml") as temporary:
            temporary.write_text(about + text, encoding="utf-8")
        # Options of loggers may hold the address of a server with its password.
        options = {k: v for k, v in flatten(load_plain(text)).items() if not k.startswith(_OF_LOGGERS)}
        shown = {k: v for k, v in options.items() if k.startswith(_SHOWN) and not k.startswith(_MECHANICS)}
        for logger in trainer.loggers:
            log_options(logger, options, shown, text, _scores(trainer))


def _scores(trainer: Trainer) -> list[str]:
    """Tags of a run's final scores: the main metric and the losses."""
    data: Any = trainer.datamodule  # type: ignore[attr-defined]
    names = dict.fromkeys((shared_metric(data.all_tasks.values()), "loss"))
    tags = [f"{split}/{name}" for split in ("test", "val") for name in names]
    return [*tags, "train/loss"]


def flatten(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten a nested configuration to ``{"model.arch": …}``; class paths become class names, None is left out.

    Args:
        config: Nested dictionaries of plain values.
        prefix: Text before every key.
    """
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if key == "class_path":
            flat[prefix.removesuffix(".")] = str(value).rsplit(".", 1)[-1]
        elif isinstance(value, dict):
            flat.update(flatten(value, prefix if key == "init_args" else f"{prefix}{key}."))
        elif value is not None:
            flat[f"{prefix}{key}"] = value if isinstance(value, int | float | str | bool) else str(value)
    return flat
