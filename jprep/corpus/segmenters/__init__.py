"""Segmenters split sentences into words."""
