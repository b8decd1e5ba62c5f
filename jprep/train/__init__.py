"""From a dataset to a trained model: jobs, run directories, and what every backend is given."""
