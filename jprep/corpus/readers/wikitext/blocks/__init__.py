"""Resolve mark-up of lines and blocks: headings, lists, paragraphs, tables."""
