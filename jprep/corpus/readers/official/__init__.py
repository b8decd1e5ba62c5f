"""Readers of what the Japanese state publishes in forms of its own: laws, minutes of the Diet."""
