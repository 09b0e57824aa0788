"""From examples to batches: options, samplers, loaders, and the base of the data modules of one set."""
