"""Callbacks that every run of lgx has."""

from lgx.callbacks.announce import Announce
from lgx.callbacks.checkpoint_io import AtomicCheckpointIO
from lgx.callbacks.learngene import SaveLearngene
from lgx.callbacks.results import SaveResults

__all__ = ["Announce", "AtomicCheckpointIO", "SaveLearngene", "SaveResults"]
