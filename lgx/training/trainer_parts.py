"""Callbacks and plugins that every run has."""

from typing import Any

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import LearningRateMonitor, StochasticWeightAveraging
from lightning.pytorch.plugins.environments import ClusterEnvironment, SLURMEnvironment, TorchElasticEnvironment

from lgx.training.callbacks import (
    Announce,
    AtomicCheckpointIO,
    BuildNetwork,
    CheckRestored,
    ContinueLogs,
    DrawFigures,
    EvaluatedStep,
    FollowMovedRun,
    ResumeAveraging,
    SaveLearngene,
    SavePredictions,
    SaveResults,
)
from lgx.training.display import display_callbacks
from lgx.training.loggers import RunLoggers


def with_averaging(given: list[Callback]) -> list[Callback]:
    """The user's callbacks; around Lightning's averaging of weights over epochs, what it needs."""
    averages = [callback for callback in given if isinstance(callback, StochasticWeightAveraging)]
    return [*(BuildNetwork() for _ in averages), *given, *map(ResumeAveraging, averages)]


def run_callbacks(command: str, trainer: Any, loggers: RunLoggers) -> list[Callback]:
    """The callbacks of every run, given the trainer's arguments."""
    results = SaveResults()
    callbacks: list[Callback] = [Announce(), results, *display_callbacks(command, trainer, results)]
    callbacks += [SaveLearngene(), SavePredictions(), FollowMovedRun(), CheckRestored()]
    callbacks += [ContinueLogs(), DrawFigures(), EvaluatedStep()]
    if loggers.recipes and not trainer.fast_dev_run:
        callbacks.append(LearningRateMonitor(logging_interval="step"))
    return callbacks


def with_own_plugins(given: Any) -> list[Any]:
    """The user's plugins, atomic checkpoints, and on SLURM an environment that leaves requeueing to the callback."""
    plugins = [*(given if isinstance(given, list) else [given]), AtomicCheckpointIO()]
    if _on_slurm() and not any(isinstance(plugin, ClusterEnvironment) for plugin in plugins):
        plugins.append(SLURMEnvironment(auto_requeue=False))
    return plugins


def _on_slurm() -> bool:
    """Whether SLURM starts the processes; within a job of SLURM torchrun may do that instead."""
    return SLURMEnvironment.detect() and not TorchElasticEnvironment.detect()
