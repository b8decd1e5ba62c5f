"""Runs stages of tasks, and knows which are done."""
