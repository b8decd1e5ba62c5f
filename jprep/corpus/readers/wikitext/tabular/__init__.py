"""Convert tables and infoboxes to rows of text, one per paragraph."""
