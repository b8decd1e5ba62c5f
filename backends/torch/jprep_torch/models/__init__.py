"""Models of transformers, their output heads and losses."""
