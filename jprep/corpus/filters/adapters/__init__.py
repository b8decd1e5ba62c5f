"""Filters of other programs as steps."""
