"""Loggers of a run: their options, where they write, how a resumed run continues them, and what they show."""

from lgx.training.loggers.options import OPTIONS
from lgx.training.loggers.recipes import LoggerRecipe, RunPlace, wanted_recipes
from lgx.training.loggers.run_loggers import RunLoggers
from lgx.training.loggers.shown import log_best_score, log_options, show_figure

__all__ = [
    "OPTIONS", "LoggerRecipe", "RunLoggers", "RunPlace", "log_best_score", "log_options", "show_figure",
    "wanted_recipes",
]  # fmt: skip
