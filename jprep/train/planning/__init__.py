"""Helpers for a backend's planner: this host, memory estimates, micro-batch sizes, duration."""
