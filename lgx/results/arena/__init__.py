"""Compare starts of descendants by accuracy against total compute: runs, costs, curves and verdicts."""
