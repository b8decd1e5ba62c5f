"""Scale the work of a sample to the whole inputs."""
