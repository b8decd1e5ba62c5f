"""Experiment trackers: TensorBoard, Weights & Biases and MLflow follow the events of a run."""
