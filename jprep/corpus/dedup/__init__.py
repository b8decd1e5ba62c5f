"""Exact deduplication across a whole corpus, and detection of repeated ids."""
