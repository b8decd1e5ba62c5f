"""Hooks: a user's own loss, head and metrics. docs/custom-loss.md describes them."""
