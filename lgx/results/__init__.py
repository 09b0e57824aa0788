"""Results of runs: rows, statistics, tables, figures, reports."""
