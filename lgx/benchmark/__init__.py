"""What training steps cost, as ratios taken in one run."""
