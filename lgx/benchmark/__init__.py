"""Time and memory of training steps, as ratios to an ordinary step in the same run."""
