"""Real schedulers and stand-ins."""
