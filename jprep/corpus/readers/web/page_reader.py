"""Base class of the readers of pages."""

from __future__ import annotations

from typing import Any, Literal

from jprep.corpus.document import Document
from jprep.corpus.readers.record_reader import MB, Item, RecordReader
from jprep.corpus.readers.web.charset import decode_page
from jprep.corpus.readers.web.child import PAGE_SECONDS, shared_extractor
from jprep.corpus.readers.web.http import TEXT, Capture
from jprep.corpus.readers.web.page import MAX_DEPTH, library_versions
from jprep.corpus.step import Positive, StepConfig
from jprep.io.inputs.limits import MAX_RATIO

_FAULTS = {
    "too_deep": f"over {MAX_DEPTH} elements deep",
    "not_extracted": f"the extractor failed, or took over {PAGE_SECONDS} s or 4 GiB",
}


class PageConfig(StepConfig, frozen=True):
    """Options of all readers of pages.

    Attributes:
        extractor: library that finds the main text of a page.
        max_page_mb: maximum size of a page in million bytes; larger ones are rejected; with the reader `html` an error.
        max_ratio: maximum ratio of decompressed to compressed bytes, as protection from decompression bombs.
    """

    extractor: Literal["resiliparse", "trafilatura"] = "resiliparse"
    max_page_mb: Positive = 8.0
    max_ratio: Positive = MAX_RATIO


class PageReader(RecordReader):
    """Makes documents of pages."""

    libraries: tuple[str, ...] = ()

    class Config(PageConfig, frozen=True):
        """Options of all readers of pages."""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._versions = library_versions(self.config.extractor, *self.libraries)
        self._extractor = shared_extractor(self.config.extractor)

    @property
    def ids_are_positions(self) -> bool:
        """Whether ids are unique by themselves: they are positions, or names of files."""
        return True

    def provenance(self) -> dict[str, str]:
        """Return the versions of the libraries."""
        return self._versions

    def close(self) -> None:
        """End the process of the extractor."""
        self._extractor.close()

    def _page_bytes(self) -> int:
        return int(self.config.max_page_mb * MB)

    def _page(self, capture: Capture, identity: str, source: str) -> tuple[Item, str]:
        """Return the document of a page, or a reject, and the page as text."""
        decoded = decode_page(capture.body, capture.charset, markup=capture.kind != TEXT)
        if decoded is None:
            return self.reject(identity, "invalid_encoding", capture.url), capture.body.decode(
                "ascii", "backslashreplace"
            )
        self.tally[f"charset.{decoded.encoding.replace('-', '_')}"] += 1
        self.tally["charset.replaced"] += decoded.replaced
        doc = Document(identity, source, "", capture.url, "", meta=capture.meta | {"charset": decoded.encoding})
        if capture.kind == TEXT:
            doc.text = decoded.text
            return self.clean_document(doc), decoded.text
        return self._extracted(doc, decoded.text), decoded.text

    def _extracted(self, doc: Document, html: str) -> Item:
        page = self._extractor.extract(html)
        if page.fault:
            return self.reject(doc.id, page.fault, _FAULTS[page.fault])
        self.tally["ruby.deleted"] += page.ruby
        self.tally["line_breaks.joined"] += page.joined
        doc.text, doc.title, doc.url = page.text, page.title, doc.url or page.url
        if page.licence:
            doc.meta["licence"] = page.licence
        return self.clean_document(doc)

    def original(self, record: str) -> str:
        """Return the markup of a page."""
        return record
