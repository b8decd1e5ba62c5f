"""Find the items of test sets in documents, by their character n-grams."""
