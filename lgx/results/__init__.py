"""Results of runs: rows, statistics, tables, figures, the papers' numbers."""
