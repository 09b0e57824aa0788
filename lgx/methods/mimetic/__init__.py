"""Mimetic initialization: attention that starts as it often ends, without a source."""
