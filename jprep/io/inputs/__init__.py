"""Inputs at any path or URL, in any compression, read in bounded memory."""
