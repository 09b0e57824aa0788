"""``lgx fit|validate|test|predict``: configuration, callbacks, folders of runs, restoring."""
