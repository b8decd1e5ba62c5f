"""Differences between arms, with intervals over seeds and items, and what they allow to be said."""
