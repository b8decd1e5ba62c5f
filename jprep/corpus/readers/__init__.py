"""Readers: an input becomes documents."""
