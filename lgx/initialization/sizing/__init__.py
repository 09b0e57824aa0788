"""The size of a descendant by budget: parameters, MACs or latency."""

from lgx.initialization.sizing.budget import Budget, amount, enough, parse_budgets
from lgx.initialization.sizing.search import Candidate, find_sizes

__all__ = ["Budget", "Candidate", "amount", "enough", "find_sizes", "parse_budgets"]
