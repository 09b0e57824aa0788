"""Plans: steps, parameters, FLOPs, memory, files and hours of a run before it starts."""

from lgx.planning.configured import Configured, configure
from lgx.planning.plan import Plan, make_plan, plan_of

__all__ = ["Configured", "Plan", "configure", "make_plan", "plan_of"]
