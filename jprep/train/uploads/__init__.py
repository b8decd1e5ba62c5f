"""Copies of a run's outputs elsewhere, made in the background while it trains."""
