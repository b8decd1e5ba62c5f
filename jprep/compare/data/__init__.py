"""The data of a comparison: sources as they are read, held-out texts, and each arm's corpus, tokenizer and dataset."""
