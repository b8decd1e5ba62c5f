"""From a corpus to a tokenizer: word counts, a vocabulary, a directory that others load."""
