"""Expand templates from the pages of a dump's template namespace, before the text of a page is extracted."""
