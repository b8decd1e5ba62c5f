"""A run after, or during, its training: metrics, checkpoints, export, and what Jupyter displays of it."""
