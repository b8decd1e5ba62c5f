"""`jprep run`, `jprep recipes` and `jprep quickstart`."""
