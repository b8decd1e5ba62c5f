"""What readers of records (lines, JSON objects, rows) share: cleaning, identifiers, the budget of bad records."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator

import msgspec

from jprep.corpus.document import Document, Reject
from jprep.corpus.step import Positive, Reader, Shard, Share, StepConfig
from jprep.errors import InputError
from jprep.io.inputs.paths import short_names

MB = 1_000_000
_EXCERPT = 80
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f]+")
# All of ASCII's but tab and newline: U+001E and U+001F are jprep's own marks, the others mean nothing in text.

Item = Document | Reject


class RecordConfig(StepConfig, frozen=True):
    """Options of every reader of records.

    Attributes:
        shard_mb: about how many million (decompressed) bytes one task reads; any value gives the same documents.
        max_bad: share of a shard's records that may be malformed (invalid UTF-8, broken JSON) before reading fails.
    """

    shard_mb: Positive = 32.0
    max_bad: Share = 0.0


class Place(msgspec.Struct, frozen=True):
    """Where a record stands.

    Attributes:
        path: its input.
        offset: its first byte in the decompressed input, or its row.
        identity: the document's id, unless the record says otherwise.
        source: the name of the source.
    """

    path: str
    offset: int
    identity: str
    source: str


class Budget:
    """Counts a shard's records and its bad ones."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._first: InputError | None = None
        self._bad = 0
        self.total = 0

    def spend(self, error: InputError) -> None:
        """Note a bad record; where none is allowed, its error is raised at once."""
        if not self._share:
            raise error
        self._first = self._first or error
        self._bad += 1

    def settle(self) -> None:
        """Raise the first record's error if too many were bad."""
        if self._first and self._bad > self._share * self.total:
            first = self._first
            what = f"{self._bad} of {self.total} records are bad, over max_bad = {self._share:g}; first: {first.what}"
            raise InputError(what, where=first.where, fix=first.fix)


class RecordReader(Reader):
    """A reader whose input is a row of records, each a document or a reject."""

    class Config(RecordConfig, frozen=True):
        """Options of every reader of records."""

    def read(self, shard: Shard, source: str) -> Iterator[Item]:
        """Read one shard of the source of that name, in order.

        Raises:
            InputError: more of its records than `max_bad` are malformed, or the input is damaged.
        """
        budget = Budget(self.config.max_bad)
        for item in self._items(shard, source, budget):
            budget.total += 1
            yield item
        budget.settle()

    @abstractmethod
    def _items(self, shard: Shard, source: str, budget: Budget) -> Iterator[Item]:
        """The shard's records; bad ones are told to the budget and come as rejects."""

    def _document(self, doc: Document) -> Item:
        """The document with its text and title cleaned, or a reject if nothing is left of it."""
        text = self._clean(doc.text).strip("\n")
        if not text or text.isspace():
            return self._reject(doc.id, "empty", title=doc.title)
        return msgspec.structs.replace(doc, text=text, title=self._clean(doc.title))

    def _reject(self, identity: str, reason: str, excerpt: str = "", title: str = "") -> Reject:
        return Reject(identity, title, f"reader.{self.name}", reason, excerpt[:_EXCERPT])

    def _clean(self, text: str) -> str:
        """CRLF becomes LF, control characters go; both are counted."""
        if crlf := text.count("\r\n"):
            self.tally["crlf.to_lf"] += crlf
            text = text.replace("\r\n", "\n")
        if _CONTROL.search(text):
            before = len(text)
            text = _CONTROL.sub("", text)
            self.tally["control.deleted"] += before - len(text)
        return text


def prefix(shard: Shard, source: str) -> str:
    """What its documents' ids begin with: the source, and the file's name.

    Inputs that share a file name get a longer one as the hint `name` (`jprep.io.inputs.paths.short_names`).
    """
    return f"{source}:{shard.hints.get('name') or short_names([shard.path])[shard.path]}"
