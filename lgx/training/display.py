"""Which callbacks show a run: lines everywhere, a progress bar in a terminal, a table of layers if asked for."""

import sys
from typing import Any

from lightning.pytorch import Callback
from lightning.pytorch.callbacks import ModelSummary, ProgressBar

from lgx.training.callbacks import EpochLines, LiveBar, NetworkSummary, Report, SaveResults


def display_callbacks(command: str, trainer: Any, results: SaveResults) -> list[Callback]:
    """The callbacks that show a run, in place of Lightning's own, which are turned off.

    Args:
        command: ``fit``, ``validate``, ``test`` or ``predict``.
        trainer: The trainer's arguments with the list of the user's callbacks; a bar among these is left alone.
        results: Computes the rows that are shown; it must come before these callbacks.
    """
    shown: list[Callback] = [EpochLines(results), Report(command)]
    if not any(isinstance(callback, ProgressBar) for callback in trainer.callbacks):
        if trainer.enable_progress_bar is not False and sys.stdout.isatty():
            shown.append(LiveBar())
        else:
            trainer.enable_progress_bar = False
    if trainer.enable_model_summary and not any(isinstance(callback, ModelSummary) for callback in trainer.callbacks):
        shown.append(NetworkSummary())
    trainer.enable_model_summary = False
    return shown
