"""Plan a job for DeepSpeed without importing it."""
