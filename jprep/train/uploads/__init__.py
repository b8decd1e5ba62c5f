"""Copies of a run elsewhere, made in the background by the supervisor's process while the worker trains."""
