"""Models of transformers, their losses and heads."""
