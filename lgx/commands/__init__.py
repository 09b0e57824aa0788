"""Commands other than training: one file each, a typed function whose docstring becomes its help."""
