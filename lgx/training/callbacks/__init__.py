"""Callbacks of every run of lgx; a configuration may name those that are imported here."""

from lgx.training.callbacks.health import GradientNorms as GradientNorms
from lgx.training.callbacks.run_weights import EMA as EMA
