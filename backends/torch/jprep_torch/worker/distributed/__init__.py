"""Processes and devices of a run, and a model on them: whole, replicated or sharded."""
