"""Parser functions and variables of MediaWiki, within templates."""
