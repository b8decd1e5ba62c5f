"""Signals by the definitions of published filter sets, quirks included: what the presets compare."""
