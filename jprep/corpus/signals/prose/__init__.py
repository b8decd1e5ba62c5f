"""Signals that tell prose from lists, code, repetition and broken text."""
