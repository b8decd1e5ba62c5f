"""Exact deduplication across a whole corpus; near-deduplication will live beside it."""
