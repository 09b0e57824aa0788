"""The callbacks and plugins of every run, around the user's."""

import sys
from pathlib import Path
from typing import Any

from jsonargparse import Namespace, dict_to_namespace
from lightning.pytorch import Callback
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ProgressBar, RichProgressBar
from lightning.pytorch.loggers import TensorBoardLogger
from lightning.pytorch.plugins.environments import ClusterEnvironment, SLURMEnvironment, TorchElasticEnvironment

from lgx.components.features import Probe
from lgx.training.callbacks.checkpoints import AtomicCheckpointIO, FinalWeights, LastCheckpoint, Preemption, Resume
from lgx.training.callbacks.costs import CountCosts
from lgx.training.callbacks.figures import ClassReport, DrawFigures
from lgx.training.callbacks.health import TrainingHealth
from lgx.training.callbacks.report import PrintProgress, Report
from lgx.training.callbacks.results import RunProbe, SavePredictions, SaveResults
from lgx.training.callbacks.run_weights import RunWeights

FOLLOW_RUN = ("save_dir", "name", "version")
"""Options of TensorBoard's logger that are empty for the run's folder; other loggers have the first one at most."""


def as_list(value: Any) -> list[Any]:
    """What a configuration gives for callbacks, plugins or loggers: a list, a single one, or none."""
    return [] if value is None else list(value) if isinstance(value, list | tuple) else [value]


def place_loggers(config: Namespace, folder: Path) -> None:
    """Let a configuration log to TensorBoard by default, and let its loggers write to the run's folder by default."""
    trainer = config.trainer
    if trainer.logger in (None, True) and not trainer.barebones:
        kind = f"{TensorBoardLogger.__module__}.{TensorBoardLogger.__qualname__}"
        trainer.logger = dict_to_namespace({"class_path": kind, "init_args": dict.fromkeys(FOLLOW_RUN, "")})
    for logger in as_list(trainer.logger):
        if isinstance(logger, Namespace) and logger.init_args.get("save_dir") == "":
            logger.init_args.save_dir = str(folder)


def every_callback(
    command: str, config: Namespace, built: Namespace, folder: Path, health: TrainingHealth, io: AtomicCheckpointIO
) -> list[Callback]:
    """The callbacks of a run, in their order."""
    trainer = built.trainer
    checkpoints = folder / "checkpoints"
    results = SaveResults()
    of_user = as_list(trainer.callbacks)
    weights = RunWeights()
    classes = ClassReport()
    callbacks: list[Callback] = [CountCosts(), *of_user, health, FinalWeights(checkpoints), weights, results, classes]
    callbacks += [PrintProgress(results), Report(command, weights, classes)]
    if not any(isinstance(callback, ProgressBar) for callback in of_user):
        trainer.enable_progress_bar = trainer.enable_progress_bar is not False and sys.stdout.isatty()
        if trainer.enable_progress_bar:
            callbacks.append(RichProgressBar())
    callbacks += [SavePredictions(), Resume(io), DrawFigures()]
    if trainer.logger is not False and command == "fit" and not trainer.fast_dev_run:
        callbacks.append(LearningRateMonitor(logging_interval="step"))
    if command == "test" and config.probe is not None:
        probe = RunProbe(Probe(config.probe))
        probe.check(built.model, built.data)
        callbacks.append(probe)
    callbacks.append(built.checkpoint)
    if config.early_stop is not None:
        best = built.checkpoint
        # After validations: a run may end before its first one. A checkpoint holds plain types.
        patience = int(config.early_stop)
        callbacks.append(EarlyStopping(best.monitor, mode=best.mode, patience=patience, check_on_train_epoch_end=False))
    if not trainer.fast_dev_run:
        # These come after the best checkpoint, whose state the last checkpoint saves.
        last = LastCheckpoint(checkpoints, config.save_every)
        callbacks += [last, Preemption(last)]
    return callbacks


def every_plugin(plugins_of_user: Any) -> tuple[list[Any], AtomicCheckpointIO]:
    """The user's plugins, atomic checkpoints, and on SLURM an environment that leaves requeueing to the callback."""
    io = AtomicCheckpointIO()
    plugins = [*as_list(plugins_of_user), io]
    # Within a job of SLURM torchrun may start the processes.
    on_slurm = SLURMEnvironment.detect() and not TorchElasticEnvironment.detect()
    if on_slurm and not any(isinstance(plugin, ClusterEnvironment) for plugin in plugins):
        plugins.append(SLURMEnvironment(auto_requeue=False))
    return plugins, io
