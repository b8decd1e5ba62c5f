"""Perplexity by a character n-gram model."""
