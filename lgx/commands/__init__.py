"""Commands that are no training: one file each, a typed function with a docstring that becomes its help."""
