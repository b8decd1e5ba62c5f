"""Extract the readable text of a wiki page from its wikitext. See docs/wikitext.md."""

from jprep.corpus.readers.wikitext.config import ExtractorConfig
from jprep.corpus.readers.wikitext.extractor import Extractor

__all__ = ["Extractor", "ExtractorConfig"]
