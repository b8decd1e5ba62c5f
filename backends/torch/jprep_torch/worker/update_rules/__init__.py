"""Optimizers that PyTorch does not have."""
