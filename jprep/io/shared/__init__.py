"""Directories that several hosts share: leases, live workers, kinds of file systems, files that appear late."""
