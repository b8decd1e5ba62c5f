"""Models of transformers' families with their heads and losses, in flax.nnx."""
