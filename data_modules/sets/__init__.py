"""One file for each data set; :mod:`data_modules.registry` lists them."""
