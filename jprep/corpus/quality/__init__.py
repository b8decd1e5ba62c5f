"""Quality classifiers: hashed character n-grams, trained on good and bad text."""
