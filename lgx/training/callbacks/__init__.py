"""Callbacks: those that every run of lgx has, and ``GradientNorms`` for those who ask for it."""

from lgx.training.callbacks.averaging import BeginAveraging
from lgx.training.callbacks.checkpoints import AtomicCheckpointIO, BuildNetwork, FinalWeights, LastCheckpoint
from lgx.training.callbacks.class_report import ClassReport
from lgx.training.callbacks.figures import DrawFigures
from lgx.training.callbacks.gallery import Gallery
from lgx.training.callbacks.health import GradientNorms, TrainingHealth
from lgx.training.callbacks.learngene import SaveLearngene
from lgx.training.callbacks.predictions import SavePredictions
from lgx.training.callbacks.preemption import Preemption
from lgx.training.callbacks.probe import RunProbe
from lgx.training.callbacks.report import PrintProgress, Report
from lgx.training.callbacks.results import SaveResults
from lgx.training.callbacks.resume import Resume
from lgx.training.callbacks.run_weights import RunWeights
from lgx.training.callbacks.save_config import SaveConfig

__all__ = [
    "AtomicCheckpointIO", "BeginAveraging", "BuildNetwork", "ClassReport", "DrawFigures", "FinalWeights", "Gallery",
    "GradientNorms", "LastCheckpoint", "Preemption", "PrintProgress", "Report", "Resume", "RunProbe", "RunWeights",
    "SaveConfig", "SaveLearngene", "SavePredictions", "SaveResults", "TrainingHealth",
]  # fmt: skip
