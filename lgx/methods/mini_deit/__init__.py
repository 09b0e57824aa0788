"""Mini-DeiT: weight multiplexing."""
