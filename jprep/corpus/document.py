"""Data types of the corpus: documents, rejects, filter verdicts and counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

WORD = "\x1f"
"""Separates two words of a sentence."""

SENTENCE = "\x1e"
"""Separates two sentences of a paragraph. A newline separates two paragraphs."""

UNMARK = {ord(WORD): None, ord(SENTENCE): None}
"""Translation table that removes both separators: `words.translate(UNMARK) == text` holds for every document."""


class Document(msgspec.Struct):
    """One document.

    Attributes:
        id: identifier, unique in the corpus and the same in every build, e.g. `jawiki:12`.
        source: name of the source it comes from.
        title: title, or "".
        url: address of the original, or "".
        text: normalized text, one paragraph per line. Splitting and segmenting do not change it.
        words: `text` plus U+001F between words and U+001E between the sentences of a paragraph; "" before splitting.
        meta: further fields from the reader, e.g. a page's revision and timestamp.
        signals: the signals that the recipe keeps, by column; NaN where one does not apply.
        line_signals: the signals of lines that the recipe keeps, by column: a value for each line of the text.
    """

    id: str
    source: str
    title: str
    url: str
    text: str
    words: str = ""
    meta: dict[str, str] = {}
    signals: dict[str, float] = {}
    line_signals: dict[str, list[float]] = {}

    def forget_signals(self) -> None:
        """Forget what was measured: the text has changed."""
        self.signals, self.line_signals = {}, {}


class Reject(msgspec.Struct):
    """A document that is not in the corpus, with the reason.

    Attributes:
        id: identifier of the document.
        title: title, or "".
        step: the step that rejected it, e.g. `reader.wikipedia`, `filter.length`, `dedup.documents`.
        reason: short code defined by the step, e.g. `redirect`, `too_short`.
        excerpt: first characters of the text, or a detail of the reason (e.g. the target of a redirect).
    """

    id: str
    title: str
    step: str
    reason: str
    excerpt: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """The result of a filter for one document.

    Attributes:
        keep: whether to keep the document.
        reason: short code that says why the document, or some of its lines, are dropped.
        lines: indexes of the paragraphs to drop from a document that is kept.
        text: the text that replaces that of a document that is kept; None changes nothing. Not together with `lines`.
    """

    keep: bool
    reason: str = ""
    lines: tuple[int, ...] = ()
    text: str | None = None


KEEP = Verdict(keep=True)

Tally = Counter[str]
"""Counts of characters, lines or documents by dotted name, e.g. `normalizer.neologdn.spaces`."""


def count_paragraphs(text: str) -> int:
    """Return the number of lines that are not empty. Only text that is kept as it is has empty lines."""
    lines = text.count("\n") + 1
    return lines if "\n\n" not in text and text.strip("\n") == text else sum(map(bool, text.split("\n")))


def sentences(words: str) -> Iterator[str]:
    """Yield the sentences of a text with separators, in order. Word separators are kept, empty lines are skipped."""
    for paragraph in words.split("\n"):
        if paragraph:
            yield from paragraph.split(SENTENCE)
