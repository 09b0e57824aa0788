"""The callbacks that every run has, in their order."""

from typing import Any

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import LearningRateMonitor

from lgx.training.callbacks import (
    Announce,
    CheckRestored,
    ContinueLogs,
    DrawFigures,
    EvaluatedStep,
    FollowMovedRun,
    SaveLearngene,
    SavePredictions,
    SaveResults,
)
from lgx.training.display import display_callbacks
from lgx.training.loggers import RunLoggers


def run_callbacks(command: str, trainer: Any, loggers: RunLoggers) -> list[Callback]:
    """The callbacks of every run.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        trainer: The trainer's arguments.
        loggers: The loggers of the run.
    """
    results = SaveResults()
    callbacks: list[Callback] = [Announce(), results, *display_callbacks(command, trainer, results)]
    callbacks += [SaveLearngene(), SavePredictions(), FollowMovedRun(), CheckRestored()]
    callbacks += [ContinueLogs(), DrawFigures(), EvaluatedStep()]
    if loggers.recipes and not trainer.fast_dev_run:
        callbacks.append(LearningRateMonitor(logging_interval="step"))
    return callbacks
