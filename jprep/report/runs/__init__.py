"""Sections about runs: curves, restarts, checkpoints, samples of text, differences between several runs."""
