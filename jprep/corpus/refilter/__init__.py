"""Decide again about the documents of a finished corpus, without reading its sources again."""
