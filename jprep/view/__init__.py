"""A local web page to search and read a corpus."""
