"""Resolve mark-up within a paragraph: links, external links, bold and italic."""
