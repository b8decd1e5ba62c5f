"""Plan a job for Keras without importing it."""
