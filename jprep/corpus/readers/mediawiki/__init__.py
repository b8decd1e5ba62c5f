"""MediaWiki dumps: the XML export format, its pages, and the wikiextractor program."""
