"""Pocket Decathlon: ten small image tasks that are made in seconds and need no download.

They mirror the domains of the Visual Decathlon, need different features, and are meant for tests, demonstrations and
first experiments. No claim about the real sets may rest on them.
"""
