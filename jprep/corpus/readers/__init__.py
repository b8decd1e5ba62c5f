"""Readers convert inputs to documents."""
