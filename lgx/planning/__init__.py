"""Plans: steps, parameters, FLOPs, memory, data, files and hours of a run before it starts."""

from lgx.planning.configured import Configured, configure
from lgx.planning.plan import Plan, SweepHours, make_plan, plan_of, sweep_hours

__all__ = ["Configured", "Plan", "SweepHours", "configure", "make_plan", "plan_of", "sweep_hours"]
