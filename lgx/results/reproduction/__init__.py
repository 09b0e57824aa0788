"""Reproduce the papers' tables and figures: the command lines that make them, and their order."""

from lgx.results.reproduction.judged_claims import JudgedClaim, claims_as_markdown, judged_claims
from lgx.results.reproduction.recipes import FILE, SCALES, Recipe, Scale, load_recipe, load_recipes
from lgx.results.reproduction.steps import Step, run_steps

__all__ = [
    "FILE", "SCALES", "JudgedClaim", "Recipe", "Scale", "Step",
    "claims_as_markdown", "judged_claims", "load_recipe", "load_recipes", "run_steps",
]  # fmt: skip
