"""HTML pages and fragments: escaped text, a shared layout, plots as SVG. Nothing in them is loaded from elsewhere."""
