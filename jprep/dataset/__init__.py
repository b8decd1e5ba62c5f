"""Encode a corpus with a tokenizer into a dataset on disk, and sample batches from it."""
