"""Weight subcloning: the most important layers, heads, neurons and dimensions of a larger network."""
