"""The queue of a stage: its tasks in files, for `jprep work` on any machine that shares the file system."""
