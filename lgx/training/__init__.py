"""`lgx fit|validate|test|predict`: command line, callbacks, resume."""
