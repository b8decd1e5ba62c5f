"""Sections about comparisons of recipes by small models."""
