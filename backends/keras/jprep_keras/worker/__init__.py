"""The worker: train, export and serve models with Keras."""
