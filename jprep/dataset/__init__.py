"""From a corpus and a tokenizer to tokens on disk, and from there to batches."""
