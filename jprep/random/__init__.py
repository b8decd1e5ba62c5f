"""Counter-based random bits and permutations: the same numbers on every machine, without state."""
