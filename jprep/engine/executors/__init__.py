"""Executors: where the tasks of a stage run."""
