"""Plan a job for JAX without importing it."""
