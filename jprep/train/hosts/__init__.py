"""Runs on several hosts: which hosts there are, how a launcher is started on each, and how they are watched."""
