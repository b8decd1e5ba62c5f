"""Plan a job for fairseq without importing it."""
