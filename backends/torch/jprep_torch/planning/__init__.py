"""Plan a job for PyTorch without importing it."""
