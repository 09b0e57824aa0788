"""WAVE: matrices of any size from shared templates."""
