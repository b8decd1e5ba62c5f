"""Suites that a step's own tests subclass: what every reader, normalizer, splitter, filter and segmenter owes."""
