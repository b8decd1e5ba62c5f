"""Splitters mark the sentences of a text."""
