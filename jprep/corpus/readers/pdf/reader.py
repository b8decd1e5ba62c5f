"""The reader `pdf`: files of PDF with text, each a document."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from importlib.metadata import version
from typing import Annotated, Any, Literal

import msgspec

from jprep.corpus.document import Document
from jprep.corpus.readers.pdf.child import FILE_SECONDS, shared_extractor
from jprep.corpus.readers.pdf.extraction import PdfLimits, PdfText
from jprep.corpus.readers.record_reader import ErrorBudget, Item
from jprep.corpus.readers.whole_files import WholeFileReader
from jprep.corpus.step import Positive, Shard, Share, StepConfig
from jprep.io.inputs.limits import MAX_RATIO
from jprep.libraries import import_library

_FAULTS = {
    "encrypted": "needs a password",
    "damaged": "no PDF, or damaged",
    "too_many_pages": "over max_pages",
    "no_characters": "no characters: images of pages, or drawings",
    "missing_fonts": "text in fonts that neither the file nor this machine has",
    "unmapped_characters": "over max_unmapped: fonts do not say which characters they have",
    "not_extracted": f"took over {FILE_SECONDS} s or 4 GiB",
}
_TALLIES = {
    "ruby": "ruby.deleted",
    "margins": "margins.deleted",
    "oblique": "oblique.deleted",
    "outside": "outside.deleted",
    "invisible": "invisible.deleted",
    "unmapped": "unmapped.replaced",
    "radicals": "radicals.replaced",
    "line_breaks": "line_breaks.joined",
    "hyphens": "hyphens.deleted",
    "vertical_pages": "pages.vertical",
    "unordered_pages": "pages.unordered",
}


class PdfReader(WholeFileReader):
    """PDF files with text, plain or in .zip. Ids: `source:file`, in a .zip `source:file:member`."""

    name = "pdf"
    version = 4
    suffixes = (".pdf",)

    class Config(StepConfig, frozen=True):
        """Options of the reader `pdf`.

        Attributes:
            writing: how pages are written; `auto` finds out that of each page.
            max_pages: maximum number of pages; larger files are rejected.
            max_unmapped: maximum fraction of characters that the fonts map to no code point; files with more are
                rejected.
            max_record_mb: maximum size of a file in million bytes.
            max_ratio: maximum ratio of decompressed to compressed bytes, as protection from decompression bombs.
        """

        writing: Literal["auto", "horizontal", "vertical"] = "auto"
        max_pages: Annotated[int, msgspec.Meta(ge=1)] = 5000
        max_unmapped: Share = 0.05
        max_record_mb: Positive = 256.0
        max_ratio: Positive = MAX_RATIO

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._version = _library_version()
        limits = PdfLimits(self.config.writing, self.config.max_pages, self.config.max_unmapped)
        self._extractor = shared_extractor(limits)

    def provenance(self) -> dict[str, str]:
        """Return the version of the library."""
        return {"pypdfium2": self._version}

    def close(self) -> None:
        """End the process of the library."""
        self._extractor.close()

    def _counted(self, shard: Shard, source: str) -> Iterator[tuple[Item, str]]:
        return self.items(shard, source, ErrorBudget(1.0))  # a file that cannot be read is a reject

    def _file_items(
        self, data: bytes, where: str, identity: str, source: str, budget: ErrorBudget
    ) -> Iterator[tuple[Item, str]]:
        found = self._extractor.extract(data)
        yield self._item(found, identity, source), found.text

    def _item(self, found: PdfText, identity: str, source: str) -> Item:
        if found.fault:
            return self.reject(identity, found.fault, _FAULTS[found.fault], self._clean(found.title))
        self.tally["pages.read"] += found.pages
        for name, count in found.counts.items():
            self.tally[_TALLIES[name]] += count
        meta = {"pages": str(found.pages)}
        return self.clean_document(Document(identity, source, found.title, "", found.text, meta=meta))

    def original(self, record: str) -> str:
        """Return the text of the pages."""
        return record


@functools.cache
def _library_version() -> str:
    import_library("pypdfium2", "PDFs need pypdfium2", "'jprep[pdf]'", "reader 'pdf'")
    return version("pypdfium2")
