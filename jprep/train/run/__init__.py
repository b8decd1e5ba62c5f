"""The run directory: job, data lock, checkpoints, events, log, status."""
