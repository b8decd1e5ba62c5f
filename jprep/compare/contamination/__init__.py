"""Find evaluation texts that occur in training texts, by their character n-grams."""
