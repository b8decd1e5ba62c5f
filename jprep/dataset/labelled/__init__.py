"""Labelled data for the tasks `classify` and `regress`."""
