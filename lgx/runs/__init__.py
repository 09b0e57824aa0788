"""Running many command lines of lgx: each in a process, under a lock, on this machine or on a cluster.

:mod:`lgx.runs.work` does one of them, :mod:`lgx.runs.executors` and :mod:`lgx.runs.submitted` say where,
:mod:`lgx.runs.pool` watches them, and :mod:`lgx.runs.schedule` takes those of a sweep in the order of their needs.
"""
