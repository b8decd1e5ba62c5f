"""MediaWiki dumps: the XML export format, its pages, and the program wikiextractor."""
