"""Suites that a step's own tests subclass: what every reader, normaliser, splitter, filter and segmenter owes."""
