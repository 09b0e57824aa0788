"""The size of a descendant by budget: parameters, MACs or latency."""

from lgx.initialization.sizing.budget import Budget, parse_budgets
from lgx.initialization.sizing.search import Candidate, Found, find_sizes
from lgx.initialization.sizing.space import Space
from lgx.initialization.sizing.table import candidate_table

__all__ = ["Budget", "Candidate", "Found", "Space", "candidate_table", "find_sizes", "parse_budgets"]
