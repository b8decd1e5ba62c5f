"""Base class of readers of records (lines, JSON objects, rows): cleaning, ids, and the budget of bad records."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import msgspec

from jprep.corpus.document import SENTENCE, WORD, Document, Reject
from jprep.corpus.readers.encoding import WrongEncodingError
from jprep.corpus.step import Positive, Reader, Shard, Share, StepConfig
from jprep.errors import InputError, Setting

MB = 1_000_000
_EXCERPT = 80
_MOST, _MANY = 0.5, 10  # share and number of bad records above which a larger `max_bad` is not the answer
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]+")
# ASCII control characters except tab and newline. U+001E and U+001F are jprep's separators, the others have no meaning.

_LINE_BREAKS = {
    "crlf.to_lf": re.compile("(?<!\r)\r++\n"),  # text that was converted twice has CR CR LF
    "cr.to_lf": re.compile("\r"),
    "page_breaks.to_lf": re.compile(r"(?<=[^\n\v\f])[\v\f](?=[\v\f]*+[^\n\v\f])"),  # where no line ends anyway
}
"""Characters that become a line feed, in this order, by the name under which they are counted."""

_MARKS = re.compile(f"[{SENTENCE}{WORD}]+")

Item = Document | Reject


class RecordConfig(StepConfig, frozen=True):
    """Options of all readers of records.

    Attributes:
        shard_mb: approximate size of a shard in million decompressed bytes; does not change the documents.
        max_bad: maximum fraction of malformed records (invalid UTF-8, broken JSON) in a shard.
    """

    shard_mb: Positive = 32.0
    max_bad: Share = 0.0


class RecordLocation(msgspec.Struct, frozen=True):
    """The position of a record.

    Attributes:
        path: path of the input.
        offset: offset of its first byte in the decompressed input, or its row.
        identity: id of the document, unless the record has one of its own.
        source: name of the source.
    """

    path: str
    offset: int
    identity: str
    source: str


class ErrorBudget:
    """Counts the records of a shard and limits the bad ones.

    Args:
        share: maximum fraction of bad records.

    Attributes:
        total: number of records read, set by the reader.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._first: InputError | None = None
        self._bad = 0
        self.total = 0

    def spend(self, error: InputError) -> None:
        """Count a bad record. Raise its error if the input has another encoding and no bad records are allowed."""
        if not self._share and isinstance(error, WrongEncodingError):
            raise error
        self._first = self._first or error
        self._bad += 1

    def settle(self) -> None:
        """Raise the error of the first bad record if there were too many; it names the share that is enough."""
        first, share = self._first, self._bad / max(1, self.total)
        if not first or share <= self._share:
            return
        bad, fix = f"{self._bad} of {self.total} records are bad", first.fix
        what = f"{bad}, over max_bad = {self._share:g}; first: {first.what}" if self._share else first.what
        if isinstance(first, WrongEncodingError) or (share > _MOST and self._bad > _MANY):
            raise first.replace(what=what, fix=fix if self._share else f"{fix}; {bad}")
        enough = math.ceil(1000 * share) / 1000
        fix += f", or allow some bad records with the reader's option `max_bad = {enough:g}`"
        raise first.replace(what=what, fix=fix if self._share else f"{fix} ({bad})", setting=Setting("max_bad", enough))


class RecordReader(Reader):
    """A reader of records, each of which becomes a document or a reject."""

    class Config(RecordConfig, frozen=True):
        """Options of all readers of records."""

    def read(self, shard: Shard, source: str) -> Iterator[Item]:
        """Yield the documents and rejects of one shard, in order.

        Raises:
            InputError: too many records are malformed, or the input is damaged.
        """
        return (item for item, _ in self._counted(shard, source))

    def read_with_originals(self, shard: Shard, source: str) -> Iterator[tuple[Item, str]]:
        """Yield the documents and rejects of one shard, in order, each with its record as text."""
        return ((item, self._original(record)) for item, record in self._counted(shard, source))

    def _counted(self, shard: Shard, source: str) -> Iterator[tuple[Item, Any]]:
        """Yield each item with its record. At the end, raise an error if there were too many bad records."""
        budget = ErrorBudget(self.config.max_bad)
        for pair in self._items(shard, source, budget):
            budget.total += 1
            yield pair
        budget.settle()

    @abstractmethod
    def _items(self, shard: Shard, source: str, budget: ErrorBudget) -> Iterator[tuple[Item, Any]]:
        """Yield the records of a shard as items, each with the record as `_original` takes it.

        Report bad records to the budget, and yield them as rejects.
        """

    @abstractmethod
    def _original(self, record: Any) -> str:
        """Return a record as text; bytes that cannot be decoded become `\\x..`."""

    def _document(self, doc: Document) -> Item:
        """Return the document with cleaned text and title, or a reject if the text is empty."""
        text = self._without(_MARKS, doc.text) if self.as_is else self._clean(doc.text).strip("\n")
        if not text or text.isspace():
            return self._reject(doc.id, "empty", title=doc.title)
        return msgspec.structs.replace(doc, text=text, title=self._clean(doc.title))

    def _reject(self, identity: str, reason: str, excerpt: str = "", title: str = "") -> Reject:
        return Reject(identity, title, f"reader.{self.name}", reason, excerpt[:_EXCERPT])

    def _clean(self, text: str) -> str:
        """Convert other line breaks to LF and delete control characters; count both."""
        if not _CONTROL.search(text):
            return text
        for name, line_break in _LINE_BREAKS.items():
            text, number = line_break.subn("\n", text)
            if number:
                self.tally[name] += number
        return self._without(_CONTROL, text)

    def _without(self, characters: re.Pattern[str], text: str) -> str:
        if characters.search(text):
            before = len(text)
            text = characters.sub("", text)
            self.tally["control.deleted"] += before - len(text)
        return text
