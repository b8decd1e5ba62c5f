"""The worker: trains, exports and serves a model with PyTorch."""
