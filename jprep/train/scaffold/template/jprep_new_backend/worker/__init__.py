"""The worker: trains, exports and serves models."""
