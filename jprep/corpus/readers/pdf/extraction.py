"""The text of a PDF, in the order of reading."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Literal

import msgspec

from jprep.corpus.readers.pdf.fragments import Fragment, Writing, find_fragments, find_writing
from jprep.corpus.readers.pdf.margins import PageFragments, without_margins
from jprep.corpus.readers.pdf.page_characters import has_text, read_characters
from jprep.corpus.readers.pdf.paragraphs import join_lines
from jprep.corpus.readers.pdf.radicals import replace_radicals
from jprep.corpus.readers.pdf.reading_order import MOST_FRAGMENTS, in_reading_order
from jprep.corpus.readers.pdf.ruby import without_ruby

Fault = Literal[
    "",
    "encrypted",
    "damaged",
    "too_many_pages",
    "no_characters",
    "missing_fonts",
    "unmapped_characters",
    "not_extracted",
]

_PROGRAMS = r"docx?|jtdc?|pptx?|xlsx?|indd|pdf|tex|dvi|ai|qxd"
_FILE_NAME = re.compile(
    rf"Microsoft \w+ - |.*\.(?:{_PROGRAMS})\Z|(?:untitled|無題|名称未設定)[\s_-]*\d*\Z", re.IGNORECASE
)


class PdfLimits(msgspec.Struct, frozen=True):
    """What is accepted.

    Attributes:
        writing: how pages are written; `auto` finds out that of each page.
        max_pages: maximum number of pages.
        max_unmapped: maximum fraction of characters that the fonts map to no code point.
    """

    writing: Literal["auto", "horizontal", "vertical"] = "auto"
    max_pages: int = 5000
    max_unmapped: float = 0.05


class PdfText(msgspec.Struct):
    """The text of a PDF.

    Attributes:
        fault: why there is none, or "".
        text: one paragraph per line.
        title: the title that the file names, unless it is the name of a file.
        pages: number of pages.
        counts: what was left out or changed, by name.
    """

    fault: Fault = ""
    text: str = ""
    title: str = ""
    pages: int = 0
    counts: dict[str, int] = {}


def extract_pdf(data: bytes, limits: PdfLimits) -> PdfText:
    """Return the text of a PDF, or why it has none."""
    import pypdfium2

    try:
        document = pypdfium2.PdfDocument(data)
    except pypdfium2.PdfiumError as error:
        return PdfText(fault="encrypted" if "password" in str(error).lower() else "damaged")
    try:
        return _Extraction(limits).extract(document)
    finally:
        document.close()


class _Extraction:
    """Reads the pages of one PDF, and counts."""

    def __init__(self, limits: PdfLimits) -> None:
        self._limits = limits
        self._counts = Counter[str]()
        self._characters, self._has_text = 0, False

    def extract(self, document: Any) -> PdfText:
        """Return the text of an open PDF of pypdfium2."""
        found = PdfText(pages=len(document), title=_title(document))
        if found.pages > self._limits.max_pages:
            found.fault = "too_many_pages"
            return found
        pages = [self._page(document, number) for number in range(found.pages)]
        if not self._characters:
            found.fault = "missing_fonts" if self._has_text else "no_characters"
        elif self._counts["unmapped"] > self._limits.max_unmapped * self._characters:
            found.fault = "unmapped_characters"
        else:
            found.text = self._text(pages)
        found.counts = {name: count for name, count in self._counts.items() if count}
        return found

    def _page(self, document: Any, number: int) -> PageFragments:
        page = document[number]
        try:
            characters = read_characters(page)
            self._has_text = self._has_text or bool(not characters.text and has_text(page))
        finally:
            page.close()
        self._characters += len(characters.text)
        self._counts["unmapped"] += characters.unmapped
        self._counts["oblique"] += characters.oblique
        self._counts["outside"] += characters.outside
        self._counts["invisible"] += characters.invisible
        writing: Writing = find_writing(characters) if self._limits.writing == "auto" else self._limits.writing
        self._counts["vertical_pages"] += writing == "vertical"
        fragments, ruby = without_ruby(find_fragments(characters, writing))
        self._counts["ruby"] += ruby
        return PageFragments(fragments, writing, characters.height)

    def _text(self, pages: list[PageFragments]) -> str:
        kept, self._counts["margins"] = without_margins(pages)
        self._counts["unordered_pages"] = sum(len(page) > MOST_FRAGMENTS for page in kept)
        ordered: list[list[Fragment]] = [in_reading_order(page) for page in kept]
        lines, self._counts["line_breaks"], self._counts["hyphens"] = join_lines(ordered)
        text, self._counts["radicals"] = replace_radicals("\n".join(lines))
        return text


def _title(document: Any) -> str:
    """Return the title that a PDF names, unless it is the name of a file, or cannot be decoded."""
    try:
        title = str(document.get_metadata_value("Title")).strip()
    except UnicodeDecodeError:
        return ""
    return "" if _FILE_NAME.match(title) else title
