"""Files: atomic writes, inputs of any compression at any URL, locks, hashes, limits for hostile input."""
