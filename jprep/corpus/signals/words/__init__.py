"""Words that mark documents on topics to leave out."""
