"""Running many command lines of lgx: each in a process, under a lock, on this machine or on a cluster.

:mod:`lgx.jobs.work` does one of them, :mod:`lgx.jobs.executors` and :mod:`lgx.jobs.submitted` say where,
:mod:`lgx.jobs.pool` watches them, and :mod:`lgx.jobs.schedule` takes those of a sweep in the order of their needs.
"""
