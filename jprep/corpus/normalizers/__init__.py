"""Normalizers change characters, line by line."""
