"""Baselines: fine-tuning and the starts that every method is compared with."""
