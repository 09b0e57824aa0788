"""Callbacks: those that every run of lgx has, and ``GradientNorms`` for those who ask for it."""

from lgx.training.callbacks.announce import Announce
from lgx.training.callbacks.averaging import BuildNetwork, FinalWeights, ResumeAveraging
from lgx.training.callbacks.check_restored import CheckRestored
from lgx.training.callbacks.checkpoint_io import AtomicCheckpointIO
from lgx.training.callbacks.config import SaveConfig
from lgx.training.callbacks.continue_logs import ContinueLogs
from lgx.training.callbacks.contract import KeepContract
from lgx.training.callbacks.epoch_lines import EpochLines
from lgx.training.callbacks.evaluated_step import EvaluatedStep
from lgx.training.callbacks.figures import DrawFigures
from lgx.training.callbacks.gradient_norms import GradientNorms
from lgx.training.callbacks.health import TrainingHealth
from lgx.training.callbacks.last_checkpoint import LastCheckpoint
from lgx.training.callbacks.learngene import SaveLearngene
from lgx.training.callbacks.live_bar import LiveBar
from lgx.training.callbacks.moved_run import FollowMovedRun
from lgx.training.callbacks.network_summary import NetworkSummary
from lgx.training.callbacks.predictions import SavePredictions
from lgx.training.callbacks.preemption import Preemption
from lgx.training.callbacks.probe import RunProbe
from lgx.training.callbacks.report import Report
from lgx.training.callbacks.results import SaveResults

__all__ = [
    "Announce", "AtomicCheckpointIO", "BuildNetwork", "CheckRestored", "ContinueLogs", "DrawFigures", "EpochLines",
    "EvaluatedStep", "FinalWeights", "FollowMovedRun", "GradientNorms", "KeepContract", "LastCheckpoint", "LiveBar",
    "NetworkSummary", "Preemption", "Report", "ResumeAveraging", "RunProbe", "SaveConfig", "SaveLearngene",
    "SavePredictions", "SaveResults", "TrainingHealth",
]  # fmt: skip
