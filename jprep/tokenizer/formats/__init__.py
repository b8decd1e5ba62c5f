"""File formats of a vocabulary: tokenizer.json, sentencepiece's model file, GPT-2's byte-level spelling."""
