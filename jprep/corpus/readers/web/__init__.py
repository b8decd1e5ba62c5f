"""Readers of the web: archives of crawls (WARC, WET) and HTML files."""
