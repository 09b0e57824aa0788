"""Lightning's loggers of a run: where they write, and which run of W&B or MLflow a resumed run continues."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from lightning.pytorch import Trainer
from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger, WandbLogger
from lightning.pytorch.loggers.logger import DummyLogger

from lgx.errors import UserError
from lgx.host.failures import foreign_errors, reason_of

UNSET: dict[str, Any] = {"save_dir": "", "experiment_name": "", "name": None}
"""Options of Lightning's loggers that follow the run -> the default that stands for this in a configuration."""

_REMEDY = "check its options; pip install 'lgx[loggers]' brings wandb and mlflow"
_TAG = "lgx.run"
"""Tag by which a run is found in MLflow."""


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

    def joined(self, *parts: str) -> str:
        """Name and seed of the run, behind further parts, where no folders give them."""
        return "-".join([*parts, self.name.replace("/", "-"), self.version])


class RunLoggers:
    """The loggers of a run; they start after its folder is claimed. Other processes than the first log nothing.

    Args:
        wanted: Lightning's loggers with the options that the user gives, to be called.
        place: The run.
        continues: Whether the run's logs go on: of a resumed run, or of an evaluation.
        overwrite: Whether a run of W&B with the run's id may be replaced.
    """

    def __init__(
        self, wanted: "list[partial[Logger]]", place: RunPlace, continues: bool, overwrite: bool = False
    ) -> None:
        self.wanted, self.place, self.continues, self.overwrite = wanted, place, continues, overwrite

    @contextmanager
    def started(self, trainer: Trainer) -> Iterator[None]:
        """Give the trainer its loggers in the block, unless it may log nothing, and close them at its end."""
        if getattr(trainer, "fast_dev_run", False) or trainer.barebones:
            yield
            return
        if not trainer.is_global_zero:
            trainer.loggers = [DummyLogger() for _ in self.wanted]
            yield
            return
        before = _wandb_run()
        try:
            trainer.loggers = [self._start(logger) for logger in self.wanted]
            yield
        except Exception as error:
            library = type(error).__module__.split(".")[0]
            if library not in ("wandb", "mlflow"):
                raise
            raise UserError(f"{library}: cannot log ({reason_of(error)}); --ckpt_path last resumes the run") from error
        finally:
            run = _wandb_run()
            if run is not None and run is not before:  # a run that is in progress elsewhere is not ours to end
                run.finish(exit_code=int(sys.exc_info()[0] is not None))
            with suppress(OSError):  # nothing was written
                self.place.folder.rmdir()

    def _start(self, wanted: "partial[Logger]") -> Logger:
        """Build a logger; those that connect do it now, while an earlier run in the folder is still whole."""
        kind: Any = wanted.func
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")  # MLflow would ask an absent server for minutes
        with (
            foreign_errors(kind.__name__, "cannot start", _REMEDY),
            _environment_kept("WANDB_MODE", "MLFLOW_TRACKING_URI"),  # both libraries change them for later runs
        ):
            logger: Logger = kind(**self._options(kind, wanted.keywords))
            if isinstance(logger, WandbLogger):
                _ = logger.experiment
            elif isinstance(logger, MLFlowLogger):
                logger.experiment.update_run(logger.run_id, status="RUNNING")
        return logger

    def _options(self, kind: type, options_of_user: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a logger; what the user does not give follows the run."""
        if kind not in (TensorBoardLogger, CSVLogger, WandbLogger, MLFlowLogger):
            return dict(options_of_user)
        own = {key: value for key, value in options_of_user.items() if value is not None and value != UNSET.get(key)}
        place, folder = self.place, str(self.place.folder)
        if kind is WandbLogger:
            resume = "allow" if self.continues else None if self.overwrite else "never"
            options = {
                "project": os.environ.get("WANDB_PROJECT", place.experiment),
                "name": os.environ.get("WANDB_NAME", place.joined()),
                "group": os.environ.get("WANDB_RUN_GROUP", place.name.replace("/", "-")),
                "save_dir": os.environ.get("WANDB_DIR", folder),
                "id": os.environ.get("WANDB_RUN_ID", place.joined(place.experiment)),
                "resume": resume,
                **own,
            }
            os.makedirs(options["save_dir"], exist_ok=True)  # W&B writes elsewhere if it does not exist
            return options
        if kind is MLFlowLogger:
            return self._options_of_mlflow(own)
        if kind is CSVLogger:  # Lightning's would delete the former table in a folder that it uses again
            return {"save_dir": folder, "name": "csv", **own}
        return {"save_dir": place.runs, "name": place.name, "version": place.version, **own}

    def _options_of_mlflow(self, own: dict[str, Any]) -> dict[str, Any]:
        """The arguments of MLflow's logger: a database in the run's folder by default; a resumed run has its run_id."""
        from mlflow import MlflowClient

        place, served = self.place, os.environ.get("MLFLOW_TRACKING_URI")
        if "tracking_uri" not in own and ("save_dir" in own or not served):
            folder = Path(own.get("save_dir", place.folder)).resolve()
            folder.mkdir(parents=True, exist_ok=True)
            own = {"artifact_location": (folder / "mlartifacts").as_uri(), **own}
            served = f"sqlite:///{folder / 'mlflow.db'}"
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", place.experiment)
        options = {"experiment_name": name, "run_name": place.joined(), "tracking_uri": served, **own}
        run = place.joined(place.experiment)
        options["tags"] = {_TAG: run, **own.get("tags", {})}
        options.setdefault("run_id", os.environ.get("MLFLOW_RUN_ID"))
        if self.continues and not options["run_id"]:
            client = MlflowClient(options["tracking_uri"])
            experiment = client.get_experiment_by_name(options["experiment_name"])
            found = experiment and client.search_runs([experiment.experiment_id], f"tags.`{_TAG}` = '{run}'")
            options["run_id"] = found[0].info.run_id if found else None  # the newest comes first
        return options


def _wandb_run() -> Any | None:
    """The run of W&B that is in progress in this process; W&B is not loaded for the question."""
    return getattr(sys.modules.get("wandb"), "run", None)


@contextmanager
def _environment_kept(*names: str) -> Iterator[None]:
    before = {name: os.environ[name] for name in names if name in os.environ}
    try:
        yield
    finally:
        for name in names:
            os.environ.pop(name, None)
        os.environ.update(before)
