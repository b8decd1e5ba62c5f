"""Files: atomic writes, inputs of any compression at any URI, locks, hashes, limits for hostile input."""
