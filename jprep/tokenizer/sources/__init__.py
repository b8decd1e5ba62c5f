"""Several sources of a tokenizer's training text, each with a weight, normalizers, a segmenter and required pieces."""
