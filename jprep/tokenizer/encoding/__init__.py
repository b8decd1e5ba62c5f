"""Encode many normalized texts at once into arrays of ids."""
