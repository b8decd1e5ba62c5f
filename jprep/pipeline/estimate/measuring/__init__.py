"""Measure what the steps of a recipe take on a sample of its inputs."""
