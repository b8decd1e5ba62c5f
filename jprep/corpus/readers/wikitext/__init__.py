"""The wikitext extractor: the source of a wiki page becomes the text that its reader reads (see docs/wikitext.md)."""

from jprep.corpus.readers.wikitext.config import ExtractorConfig
from jprep.corpus.readers.wikitext.extractor import Extractor

__all__ = ["Extractor", "ExtractorConfig"]
