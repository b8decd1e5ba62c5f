"""Suites that a step's own tests subclass: the rules for each kind of step of a corpus."""
