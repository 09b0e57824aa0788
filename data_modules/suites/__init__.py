"""Suites of tasks that are prepared together: the Visual Decathlon, the mini-Decathlon, the pocket tasks."""
