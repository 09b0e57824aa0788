"""Training on several sets at once."""
