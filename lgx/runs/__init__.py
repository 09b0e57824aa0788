"""Run many ``lgx`` command lines, each in a process and under a lock, on this machine or on a cluster.

:mod:`~lgx.runs.sweeps` and :mod:`~lgx.runs.tuning` read sweep files and tuning files. A run of a sweep and a trial of a
tuning study each become a :class:`~lgx.runs.jobs.Job`. An executor (:mod:`~lgx.runs.executors`,
:mod:`~lgx.runs.slurm_executor`) runs jobs, :mod:`~lgx.runs.pool` watches them, and :mod:`~lgx.runs.scheduler`
(sweeps) and :mod:`~lgx.runs.study` (tuning) decide which job starts next.
"""
