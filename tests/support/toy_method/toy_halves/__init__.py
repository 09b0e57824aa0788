"""A method for lgx in a package of its own."""
