"""Public data sets; :mod:`data_modules.registry` lists them."""
