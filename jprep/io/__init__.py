"""Files: atomic writes, opening of any compression at any place, limits against hostile input."""
