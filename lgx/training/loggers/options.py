"""Options of Lightning's loggers in lgx: those that name the run have defaults that follow the run.

The command line reads these classes in place of the constructors. So a saved configuration names no folder of its run,
and can be read where the logger's library is missing or has other options.
"""

from dataclasses import dataclass
from typing import Any, Literal

from lightning.pytorch.loggers import CSVLogger, Logger, MLFlowLogger, TensorBoardLogger, WandbLogger


@dataclass(frozen=True)
class TensorBoardOptions:
    """Options of TensorBoardLogger, which writes into ``<save_dir>/<name>/<version>``.

    Args:
        save_dir: Folder; by default that of the experiment.
        name: Folder in it; by default the name of the run.
        version: Folder in that; by default ``seed<k>``.
        log_graph: Whether to log the graph of the network.
        default_hp_metric: Whether to log ``hp_metric`` where hyper-parameters have no metric.
        prefix: Text before the name of every metric.
        sub_dir: Folder in the last one.
        comment: End of the names of the event files.
        purge_step: Step from which earlier events are hidden.
        max_queue: Events that wait in memory.
        flush_secs: Seconds between writes.
        filename_suffix: End of the names of the event files.
    """

    save_dir: str | None = None
    name: str | None = None
    version: int | str | None = None
    log_graph: bool = False
    default_hp_metric: bool = False
    prefix: str = ""
    sub_dir: str | None = None
    comment: str = ""
    purge_step: int | None = None
    max_queue: int = 10
    flush_secs: int = 120
    filename_suffix: str = ""


@dataclass(frozen=True)
class CSVOptions:
    """Options of CSVLogger, which writes ``<save_dir>/<name>/<version>/metrics.csv``.

    Args:
        save_dir: Folder; by default that of the experiment.
        name: Folder in it; by default the name of the run.
        version: Folder in that; by default ``seed<k>``.
        prefix: Text before the name of every metric.
        flush_logs_every_n_steps: Logged steps between writes.
    """

    save_dir: str | None = None
    name: str | None = None
    version: int | str | None = None
    prefix: str = ""
    flush_logs_every_n_steps: int = 100


@dataclass(frozen=True)
class WandbOptions:
    """Options of WandbLogger. The environment variables of W&B count where an option is not given.

    Args:
        project: Project; by default the experiment.
        name: Name of the W&B run; by default ``<name>-seed<k>``.
        group: Runs that W&B shows together; by default the name of the run, so that its seeds are one group.
        entity: User or team; by default that of the account.
        offline: Whether to write into the folder only; ``wandb sync`` uploads it.
        save_dir: Folder; by default the run's.
        version: Id of the W&B run; by default a new one, which the run keeps in ``loggers.json``.
        job_type: Kind of the run.
        tags: Tags of the run.
        notes: Notes on the run.
        log_model: Whether to upload checkpoints; ``all`` uploads each when it is written.
        checkpoint_name: Name of the uploaded checkpoints.
        prefix: Text before the name of every metric.
    """

    project: str | None = None
    name: str | None = None
    group: str | None = None
    entity: str | None = None
    offline: bool = False
    save_dir: str | None = None
    version: str | None = None
    job_type: str | None = None
    tags: list[str] | None = None
    notes: str | None = None
    log_model: Literal["all"] | bool = False
    checkpoint_name: str | None = None
    prefix: str = ""


@dataclass(frozen=True)
class MLFlowOptions:
    """Options of MLFlowLogger. The environment variables of MLflow count where an option is not given.

    Args:
        experiment_name: Experiment in MLflow; by default the experiment.
        run_name: Name of the MLflow run; by default ``<name>-seed<k>``.
        tracking_uri: A server (``http://127.0.0.1:5000``) or a database (``sqlite:///mlflow.db``); by default
            ``mlflow.db`` in ``save_dir``.
        save_dir: Folder of the database, and of the files of its runs; by default the run's.
        tags: Tags of the MLflow run.
        log_model: Whether to upload checkpoints; ``all`` uploads each when it is written.
        prefix: Text before the name of every metric.
        artifact_location: Where a new experiment keeps files; by default the server decides.
        run_id: Id of an MLflow run that is continued; by default a new one, which the run keeps in ``loggers.json``.
        synchronous: Whether each call waits until it is stored.
    """

    experiment_name: str | None = None
    run_name: str | None = None
    tracking_uri: str | None = None
    save_dir: str | None = None
    tags: dict[str, Any] | None = None
    log_model: Literal["all"] | bool = False
    prefix: str = ""
    artifact_location: str | None = None
    run_id: str | None = None
    synchronous: bool | None = None


OPTIONS: dict[type[Logger], type] = {
    TensorBoardLogger: TensorBoardOptions,
    CSVLogger: CSVOptions,
    WandbLogger: WandbOptions,
    MLFlowLogger: MLFlowOptions,
}
"""Logger -> its options. Any other logger has the options of its constructor."""
