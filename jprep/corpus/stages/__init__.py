"""Stages of a corpus build."""
