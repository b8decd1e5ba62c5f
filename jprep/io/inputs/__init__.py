"""Inputs at any path or URI, in any compression, read in bounded memory."""
