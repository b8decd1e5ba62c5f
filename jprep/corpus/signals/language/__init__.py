"""The language of a text by a small linear model over character n-grams."""
