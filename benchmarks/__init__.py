"""Time and memory of training steps and loaders, as ratios to an ordinary step: `make bench`, `make gpu`."""
