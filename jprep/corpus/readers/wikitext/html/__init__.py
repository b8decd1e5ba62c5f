"""Comments, elements, tags and character references: everything in angle brackets, and `&…;`."""
