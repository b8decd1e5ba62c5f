"""Filters: documents and lines that stay or go."""
