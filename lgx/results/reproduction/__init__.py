"""Reproduce the papers' tables and figures: the command lines that make them, and their order."""

from lgx.results.reproduction.recipes import FILE, SCALES, Recipe, Scale, load_recipe, load_recipes
from lgx.results.reproduction.steps import Step, run_steps

__all__ = ["FILE", "SCALES", "Recipe", "Scale", "Step", "load_recipe", "load_recipes", "run_steps"]
