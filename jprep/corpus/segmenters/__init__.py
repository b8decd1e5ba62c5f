"""Segmenters: sentences become words."""
