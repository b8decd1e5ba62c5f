"""Expand templates by tables in TOML files."""
