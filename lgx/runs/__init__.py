"""Run many ``lgx`` command lines, each in a process and under a lock, on this machine or on a cluster.

:mod:`~lgx.runs.sweeps` reads sweep files. Each run of a sweep becomes a :class:`~lgx.runs.jobs.Job`. An executor
(:mod:`~lgx.runs.executors`, :mod:`~lgx.runs.slurm_executor`) runs jobs, and :mod:`~lgx.runs.scheduler` watches them
and decides which job starts next.
"""
