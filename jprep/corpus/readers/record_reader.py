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
    """Options of all readers of records. The `Config` of a reader derives from it.

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
        total: number of records read; `RecordReader` counts them.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._first: InputError | None = None
        self._bad = 0
        self.total = 0

    def spend(self, error: InputError) -> None:
        """Count a bad record.

        Args:
            error: the error to raise if there are too many: with the file, the offset and a fix.

        Raises:
            InputError: the input has another encoding, and no bad records are allowed.
        """
        if not self._share and isinstance(error, WrongEncodingError):
            raise error
        self._first = self._first or error
        self._bad += 1

    def settle(self) -> None:
        """Check the number of bad records at the end of a shard; `RecordReader` calls this.

        Raises:
            InputError: there were too many: the error of the first one, with the value of `max_bad` that is enough.
        """
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
    """A reader of records, such as lines, objects or rows, each of which becomes a document or a reject.

    A subclass defines `shards`, `items` and `original`, and its `Config` derives from `RecordConfig`. `read` and
    `read_with_originals` follow from them, with the option `max_bad`. `clean_document` observes `as_is`, so a subclass
    may set `can_keep_text = True`.
    """

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
        return ((item, self.original(record)) for item, record in self._counted(shard, source))

    def _counted(self, shard: Shard, source: str) -> Iterator[tuple[Item, Any]]:
        """Yield each item with its record. At the end, raise an error if there were too many bad records."""
        budget = ErrorBudget(self.config.max_bad)
        for pair in self.items(shard, source, budget):
            budget.total += 1
            yield pair
        budget.settle()

    @abstractmethod
    def items(self, shard: Shard, source: str, budget: ErrorBudget) -> Iterator[tuple[Item, Any]]:
        """Yield each record of a shard as a document or a reject, with the record as `original` takes it.

        Give the errors of bad records to the budget, and yield these records as rejects.

        Args:
            shard: one of the shards returned by `shards`.
            source: name of the source in the recipe.
            budget: takes the errors of bad records.

        Raises:
            InputError: the input is damaged, so that its records cannot be told apart.
        """

    @abstractmethod
    def original(self, record: Any) -> str:
        """Return a record as text; bytes that cannot be decoded become `\\x..`."""

    def clean_document(self, doc: Document) -> Item:
        """Return a document with cleaned text and title, or a reject with the reason `empty`.

        CR, CR LF and page breaks become LF; other control characters except tab are deleted, U+001E and U+001F among
        them; empty lines at both ends are removed. Changed characters are counted in `tally`. With `as_is`, only U+001E
        and U+001F are deleted from the text.
        """
        text = self._without(_MARKS, doc.text) if self.as_is else self._clean(doc.text).strip("\n")
        if not text or text.isspace():
            return self.reject(doc.id, "empty", title=doc.title)
        return msgspec.structs.replace(doc, text=text, title=self._clean(doc.title))

    def reject(self, identity: str, reason: str, excerpt: str = "", title: str = "") -> Reject:
        """Return a record as a reject of the step `reader.NAME`.

        Args:
            identity: id that the document would have.
            reason: one word in `snake_case`.
            excerpt: beginning of the record, or a detail of the reason; at most 80 characters are kept.
            title: title, or "".
        """
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
