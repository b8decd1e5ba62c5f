"""Find texts of an evaluation that stand in training texts, by their character n-grams."""
