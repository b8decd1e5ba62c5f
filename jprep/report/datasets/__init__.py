"""Sections about datasets: sizes, lengths, rows with their words, origin."""
