"""Data types: a document's way from its record in the input, or why it cannot be shown."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from jprep.corpus.document import Reject
from jprep.corpus.step import Threshold
from jprep.errors import JprepError


class Reason(StrEnum):
    """Why the record of a document cannot be read again."""

    INPUT_GONE = "input_gone"
    """An input file was not found; the corpus does not record where its inputs are."""
    INPUT_CHANGED = "input_changed"
    """There is a file of this name, but its size or its SHA-256 differs from the corpus's manifest."""
    INPUT_PIPE = "input_pipe"
    """The corpus was built from a pipe, which can be read only once."""
    STEP_MISSING = "step_missing"
    """The reader is of a plugin that is not installed, or needs a library or a program that is not installed."""
    STEP_CHANGED = "step_changed"
    """The reader of this jprep, or of this plugin, has a different version than the one that built the corpus."""
    NOT_FOUND = "not_found"
    """The corpus, or the part of the input, has no document and no reject of this id."""
    UNREADABLE = "unreadable"
    """The input or the corpus cannot be read."""


class Unavailable(msgspec.Struct, frozen=True):
    """Why the record of a document cannot be read again.

    Attributes:
        reason: the kind of reason.
        what: what happened, in one sentence without a full stop; may contain text from outside.
        fix: how to fix it, or "".
    """

    reason: Reason
    what: str
    fix: str = ""

    def error(self, where: str = "") -> JprepError:
        """Return an error that says the same."""
        return JprepError(self.what, where=where, fix=self.fix)


class FilterResult(msgspec.Struct, frozen=True):
    """What a filter found.

    Attributes:
        name: name of the filter.
        keep: whether it keeps the document.
        reason: why it drops the document or some of its lines; "" if it drops nothing.
        lines: indexes of the paragraphs that it drops.
        measures: what it compares with its thresholds; empty for filters that do not say.
        thresholds: the smallest and the largest value that is kept of each measure.
    """

    name: str
    keep: bool
    reason: str
    lines: tuple[int, ...]
    measures: Mapping[str, float]
    thresholds: Mapping[str, Threshold]


class Original(msgspec.Struct, frozen=True):
    """The trace of a document or reject from its record in the input, up to deduplication.

    All texts come from outside and may hold any character. Longer ones are cut to a limit.

    Attributes:
        id: identifier of the document.
        source: name of the source.
        title: title, or "".
        url: address of the original, or "".
        original: the record as it stands in the input, decoded: wikitext, a line, a paragraph, an object of JSON.
        original_chars: characters of the whole record.
        read_text: the text as the reader returned it; "" if the reader rejected the record.
        normalized: name of each normalizer with the text after it.
        text: the text after the filters, without the lines that they drop; "" for a document without text.
        words: `text` with U+001E between the sentences.
        filters: what each filter found, in order. A build stops at the first filter that drops the document; the
            others are applied here to the same text.
        reject: why the document is not in the corpus; None if only deduplication can have removed it.
        problem: why the steps after the reader are not shown, or "".
    """

    id: str
    source: str
    title: str
    url: str
    original: str
    original_chars: int
    read_text: str = ""
    normalized: tuple[tuple[str, str], ...] = ()
    text: str = ""
    words: str = ""
    filters: tuple[FilterResult, ...] = ()
    reject: Reject | None = None
    problem: str = ""
