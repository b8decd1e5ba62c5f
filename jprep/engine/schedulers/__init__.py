"""Batch schedulers: write a job's script, submit it, ask for its state, cancel it."""
