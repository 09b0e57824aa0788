"""Callbacks that every run of lgx has."""

from lgx.callbacks.announce import Announce
from lgx.callbacks.checkpoint_io import AtomicCheckpointIO
from lgx.callbacks.last_checkpoint import LastCheckpoint
from lgx.callbacks.learngene import SaveLearngene
from lgx.callbacks.predictions import SavePredictions
from lgx.callbacks.preemption import Preemption
from lgx.callbacks.results import SaveResults
from lgx.callbacks.routing import DrawRouting
from lgx.callbacks.task_map import DrawTaskMap

__all__ = [
    "Announce", "AtomicCheckpointIO", "DrawRouting", "DrawTaskMap", "LastCheckpoint", "Preemption", "SaveLearngene",
    "SavePredictions", "SaveResults",
]  # fmt: skip
