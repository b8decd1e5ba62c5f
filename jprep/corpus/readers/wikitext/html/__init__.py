"""Resolve HTML in wikitext: comments, elements, tags and character references."""
