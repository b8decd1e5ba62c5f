"""Filters decide which documents and lines to keep."""
