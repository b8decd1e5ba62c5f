"""The worker: trains a model with DeepSpeed's engine."""
