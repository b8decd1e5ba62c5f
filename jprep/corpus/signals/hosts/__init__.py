"""The signal `hosts`: whether the address of a document is on a list of hosts and URL patterns."""
