"""Commands for work on several machines."""
