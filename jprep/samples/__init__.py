"""The embedded sample: an export of some thirty pages, written for jprep."""
