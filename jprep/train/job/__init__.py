"""The job: the typed `[train]` section, and the job that is built from it."""
