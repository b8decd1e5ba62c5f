"""The reader `pdf` on a machine without the fonts of a file."""

from __future__ import annotations

from typing import Any

import pytest

from jprep.corpus.readers.pdf import extraction
from jprep.corpus.readers.pdf.extraction import PdfLimits, extract_pdf
from jprep.corpus.readers.pdf.page_characters import read_characters
from tests.fakes.pdfs import PARAGRAPHS, make_pdf


def _unread(page: Any) -> Any:
    """Return what PDFium finds where it has no font for any of the characters."""
    characters = read_characters(page)
    empty = {name: getattr(characters, name)[:0] for name in ("text", "spaces", "boxes", "font_sizes", "sideways")}
    return characters._replace(**empty)


def test_text_without_a_font_is_not_taken_for_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extraction, "read_characters", _unread)
    assert extract_pdf(make_pdf(PARAGRAPHS), PdfLimits()).fault == "missing_fonts"
    assert extract_pdf(make_pdf([""]), PdfLimits()).fault == "no_characters"
