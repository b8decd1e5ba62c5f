"""Write a corpus as plain text or JSON Lines, into one file or into files with a number of lines."""
