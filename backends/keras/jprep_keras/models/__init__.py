"""KerasHub's models with transformers' weights and mathematics."""
