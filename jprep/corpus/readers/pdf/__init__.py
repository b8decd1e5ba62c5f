"""The reader `pdf`: text in reading order from the places of its characters."""
