"""A corpus in a notebook: tables for other libraries, and what is displayed."""
