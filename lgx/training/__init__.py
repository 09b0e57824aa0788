"""``lgx fit|validate|test|predict``: configuration, callbacks, run folders, resuming."""
