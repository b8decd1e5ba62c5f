"""Encode many normalised texts at once into arrays of ids."""
