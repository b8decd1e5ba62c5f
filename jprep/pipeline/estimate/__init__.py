"""Estimate what a recipe takes, from a short run of its steps on a sample of its inputs: time, disk, files, memory."""
