"""What flows through the corpus: documents, what was rejected and why, and counts of everything that happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

WORD = "\x1f"
"""Stands between two words of one sentence."""

SENTENCE = "\x1e"
"""Stands between two sentences of one paragraph. A newline stands between two paragraphs."""

UNMARK = {ord(WORD): None, ord(SENTENCE): None}
"""`words.translate(UNMARK) == text`, always."""


class Document(msgspec.Struct):
    """One document.

    Attributes:
        id: unique in the corpus, the same in every build, e.g. `jawiki:12`.
        source: the name of the source it came from.
        title: its title, or "".
        url: where it can be read, or "".
        text: normalised text, one paragraph a line; never altered by splitting or segmenting.
        words: `text` plus U+001F between words and U+001E between the sentences of a paragraph; "" until it was split.
        meta: what else its reader knows, e.g. a page's revision and timestamp.
    """

    id: str
    source: str
    title: str
    url: str
    text: str
    words: str = ""
    meta: dict[str, str] = {}


class Reject(msgspec.Struct):
    """A document, or a part of one, that did not enter the corpus.

    Attributes:
        id: the document's id.
        title: its title, or "".
        step: the step that rejected it, e.g. `reader.wikipedia`, `filter.length`, `dedup.documents`.
        reason: one short word of the step's own, e.g. `redirect`, `too_short`.
        excerpt: its first characters, or what the reason refers to (a redirect's target).
    """

    id: str
    title: str
    step: str
    reason: str
    excerpt: str = ""


class Verdict(msgspec.Struct, frozen=True):
    """A filter's answer.

    Attributes:
        keep: whether the document stays.
        reason: one short word for why it does not, or why lines do not.
        lines: indexes of the paragraphs to drop from a document that stays.
    """

    keep: bool
    reason: str = ""
    lines: tuple[int, ...] = ()


KEEP = Verdict(keep=True)

Tally = Counter[str]
"""Counts by dotted name, e.g. `normalizer.neologdn.spaces`: sums of characters, lines or documents."""


def sentences(words: str) -> Iterator[str]:
    """The sentences of a marked text, in order, with their word marks; newlines and empty lines left out."""
    for paragraph in words.split("\n"):
        if paragraph:
            yield from paragraph.split(SENTENCE)
