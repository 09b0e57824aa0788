"""What a configuration says of the loggers, before they are built: building one may already write or connect."""

import os
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger, WandbLogger

from lgx.training.loggers.ids import LoggerIds, mlflow_key, wandb_key
from lgx.training.loggers.run_tensorboard import tensorboard_logger
from lgx.training.loggers.shared_csv import metrics_file, share_file


@dataclass(frozen=True)
class RunPlace:
    """The place of a run, which its loggers follow.

    Attributes:
        runs: Folder of the experiment.
        name: Name of the run.
        version: ``seed<k>``.
    """

    runs: str
    name: str
    version: str

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.runs, self.name, self.version)

    @property
    def experiment(self) -> str:
        """The experiment."""
        return Path(self.runs).name

    @property
    def title(self) -> str:
        """Name of the run where no folders give it."""
        return f"{self.name}-{self.version}"


@dataclass(frozen=True)
class LoggerRecipe:
    """A logger that is to be built.

    Attributes:
        kind: Its class.
        options: Arguments of the class; None where the user gives none.
    """

    kind: type[Logger]
    options: dict[str, Any] = field(default_factory=dict)

    def build(self, place: RunPlace, ids: LoggerIds, appends: bool) -> Logger:
        """Build the logger; what the user does not give follows the run.

        Args:
            place: The run.
            ids: Ids of the run in other programs.
            appends: Whether the logger continues files that exist.
        """
        if self.kind is TensorBoardLogger:
            return tensorboard_logger(_in_folders(self.options, place))
        if self.kind is CSVLogger:
            rows = CSVLogger(**_in_folders(self.options, place))
            if not appends:
                metrics_file(rows).unlink(missing_ok=True)
            share_file(rows)
            return rows
        if self.kind is WandbLogger:
            wandb = WandbLogger(**_of_wandb(self.options, place, ids))
            wandb._wandb_init.pop("anonymous", None)  # W&B warns of it, whatever its value
            return wandb
        if self.kind is MLFlowLogger:
            return MLFlowLogger(**_of_mlflow(self.options, place, ids))
        return self.kind(**self.options)


def file_elsewhere(recipe: LoggerRecipe, place: RunPlace) -> Path | None:
    """The file that a CSVLogger would begin anew outside the run's folder, if it exists: another run may own it.

    Args:
        recipe: Any logger.
        place: The run.
    """
    if recipe.kind is not CSVLogger:
        return None
    file = metrics_file(CSVLogger(**_in_folders(recipe.options, place)))
    return file if file.is_file() and not file.resolve().is_relative_to(place.folder.resolve()) else None


def wanted_recipes(given: Any, default: LoggerRecipe) -> list[LoggerRecipe]:
    """The loggers of a run.

    Args:
        given: Value of ``trainer.logger``: null, true, false, a recipe, or a list of them.
        default: The logger of null and true.
    """
    if given is None or given is True:
        return [default]
    if given is False:
        return []
    return list(given) if isinstance(given, Sequence) else [given]


def store_of(options: dict[str, Any], place: RunPlace) -> tuple[str, Path | None]:
    """Where MLflow stores runs.

    Args:
        options: Options of MLFlowLogger.
        place: The run.

    Returns:
        The tracking URI, and the folder of the database if it is the default one.
    """
    given = options.get("tracking_uri") or (None if options.get("save_dir") else os.environ.get("MLFLOW_TRACKING_URI"))
    if given:
        return str(given), None
    folder = Path(options.get("save_dir") or place.folder).resolve()
    return f"sqlite:///{folder / 'mlflow.db'}", folder


def key_of_wandb(options: dict[str, Any], place: RunPlace) -> str:
    """Key of the id of the run in W&B."""
    return wandb_key(options["entity"] or os.environ.get("WANDB_ENTITY"), _project(options, place))


def key_of_mlflow(options: dict[str, Any], place: RunPlace) -> str:
    """Key of the id of the run in MLflow."""
    uri, folder = store_of(options, place)
    return mlflow_key(uri if folder is None else None)


def _project(options: dict[str, Any], place: RunPlace) -> str:
    return str(options["project"] or os.environ.get("WANDB_PROJECT") or place.experiment)


def _in_folders(options: dict[str, Any], place: RunPlace) -> dict[str, Any]:
    return _filled(options, save_dir=place.runs, name=place.name, version=place.version)


def _of_wandb(options: dict[str, Any], place: RunPlace, ids: LoggerIds) -> dict[str, Any]:
    known = {
        "name": (place.title, "WANDB_NAME"), "group": (place.name, "WANDB_RUN_GROUP"),
        "save_dir": (str(place.folder), "WANDB_DIR"),
    }  # fmt: skip
    defaults = {key: os.environ.get(name) or value for key, (value, name) in known.items()}
    filled = _filled(options, project=_project(options, place), **defaults)
    given = filled["version"] or os.environ.get("WANDB_RUN_ID") or ids.get(key_of_wandb(options, place))
    filled["version"] = given or uuid.uuid4().hex[:12]
    Path(filled["save_dir"]).mkdir(parents=True, exist_ok=True)  # W&B writes elsewhere if it does not exist
    return {key: value for key, value in filled.items() if value is not None}


def _of_mlflow(options: dict[str, Any], place: RunPlace, ids: LoggerIds) -> dict[str, Any]:
    uri, folder = store_of(options, place)
    experiment = os.environ.get("MLFLOW_EXPERIMENT_NAME") or place.experiment
    filled = _filled(options, experiment_name=experiment, run_name=place.title)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        filled = _filled(filled, artifact_location=(folder / "mlartifacts").as_uri())
    run_id = options["run_id"] or os.environ.get("MLFLOW_RUN_ID") or ids.get(key_of_mlflow(options, place))
    return filled | {"tracking_uri": uri, "run_id": run_id}


def _filled(options: dict[str, Any], **defaults: Any) -> dict[str, Any]:
    """The options, with defaults for those that are not given."""
    return options | {key: value for key, value in defaults.items() if options.get(key) is None}
