"""Signals measure documents; filters compare them with thresholds."""
