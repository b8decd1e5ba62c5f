"""Normalisers: text becomes text."""
