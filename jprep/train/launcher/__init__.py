"""Backend environments, and the supervisor that starts and restarts a run's workers."""
