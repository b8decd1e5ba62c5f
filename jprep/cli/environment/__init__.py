"""`jprep doctor`, `jprep plugins` and `jprep backends`."""
