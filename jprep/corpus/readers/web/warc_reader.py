"""The reader `warc`: archives of crawls (WARC), and their text (WET)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from jprep.corpus.readers.record_reader import MB, ErrorBudget, Item
from jprep.corpus.readers.web.http import capture_of
from jprep.corpus.readers.web.page_reader import PageConfig, PageReader
from jprep.corpus.readers.web.records import (
    Limits,
    RawRecord,
    is_per_record,
    member_boundary,
    read_members,
    read_records,
)
from jprep.corpus.readers.web.window import Window
from jprep.corpus.step import Positive, Shard, Share
from jprep.errors import InputError
from jprep.io.inputs.limits import DOWNLOAD_AGAIN
from jprep.io.inputs.paths import STDIN, is_local, size_of
from jprep.io.inputs.streams import can_seek, compression_of, is_plain, open_input, open_raw

_RATIO = 5  # approximate bytes of pages per byte of gzip; affects the size of shards only
_READ = {"members": read_members, "records": read_records}


class WarcReader(PageReader):
    """Pages of a crawl. Ids: `source:file:offset of the record`, in compressed bytes if each record is a gzip member.

    A local file whose records are gzip members, or which is not compressed, is read by the tasks from the middle. Any
    other input is read once from its start, and the shards contain its records.
    """

    name = "warc"
    version = 8
    libraries = ("fastwarc",)

    class Config(PageConfig, frozen=True):
        """Options of the reader `warc`.

        Attributes:
            max_bad: maximum fraction of damaged records in a shard.
            shard_mb: approximate size of a shard in million decompressed bytes; does not change the documents.
        """

        max_bad: Share = 0.01
        shard_mb: Positive = 32.0

    def shards(self, path: str) -> Iterator[Shard]:
        """Split one file into shards of whole records.

        Raises:
            InputError: a file of which not each record is a gzip member is damaged.
        """
        framing = self._framing(path)
        if framing == "members" and can_seek(path):
            yield from self._member_shards(path)
        elif is_plain(path):
            yield from self._record_shards(path)
        else:
            yield from self._data_shards(path, framing)

    def reads_through(self, path: str) -> bool:
        """Return whether records cannot be found from the middle of a file."""
        return self._framing(path) != "members" or not can_seek(path)

    def _framing(self, path: str) -> str:
        """Return how the records of a file are found, see `records`."""
        pipe = path == STDIN or (is_local(path) and size_of(path) is None)
        if pipe or compression_of(path) != "gzip":
            return "records"
        with open_raw(path) as stream:
            return "members" if is_per_record(Window(stream)) else "records"

    def _member_shards(self, path: str) -> Iterator[Shard]:
        size, step = size_of(path) or 0, max(1, int(self.config.shard_mb * MB / _RATIO))
        index, start = 0, 0
        while start < size:
            end = self._boundary(path, start + step) if start + step < size - step // 2 else size
            yield _range(path, index, start, end, "members")
            index, start = index + 1, end

    def _boundary(self, path: str, at: int) -> int:
        with open_raw(path) as stream:
            stream.seek(at)
            found = member_boundary(Window(stream, at), self._limits())
        return found if found >= 0 else size_of(path) or 0

    def _record_shards(self, path: str) -> Iterator[Shard]:
        size, step = size_of(path) or 0, int(self.config.shard_mb * MB)
        index, start = 0, 0
        with open_raw(path) as stream:
            for record in read_records(Window(stream), self._limits()):
                if record.start - start >= step and size - record.start > step // 2:
                    yield _range(path, index, start, record.start, "records")
                    index, start = index + 1, record.start
        yield _range(path, index, start, size, "records")

    def _data_shards(self, path: str, framing: str) -> Iterator[Shard]:
        step, index, start, size = int(self.config.shard_mb * MB), 0, 0, 0
        records = list[RawRecord]()
        opened = open_raw(path) if framing == "members" else open_input(path, max_ratio=self.config.max_ratio)
        done = 0
        with opened as stream:
            for record in _READ[framing](Window(stream), self._limits()):
                if size >= step:
                    weight, done = stream.consumed - done, stream.consumed
                    yield _packed(path, index, start, record.start, weight, records)
                    index, start, size, records = index + 1, record.start, 0, []
                records.append(record)
                size += len(record.data)
            if records:
                yield _packed(path, index, start, records[-1].start + 1, stream.consumed - done, records)

    def _limits(self) -> Limits:
        return Limits(self._page_bytes(), self.config.max_ratio)

    def _records(self, shard: Shard) -> Iterator[RawRecord]:
        if shard.data is not None:
            yield from msgspec.msgpack.decode(shard.data, type=list[RawRecord])
            return
        with open_raw(shard.path) as stream:
            stream.seek(shard.start)
            for record in _READ[shard.hints["framing"]](Window(stream, shard.start), self._limits()):
                if record.start >= shard.end:
                    return
                yield record

    def items(self, shard: Shard, source: str, budget: ErrorBudget) -> Iterator[tuple[Item, Any]]:
        """Yield the responses of a shard, each with its markup, or with its record if it is no page."""
        prefix = shard.id_prefix(source)
        for record in self._records(shard):
            identity = f"{prefix}:{record.position}"
            capture = capture_of(record, self._page_bytes())
            if not capture.reason:
                self.tally["http.undecoded"] += capture.undecoded
                self.tally["http.incomplete"] += capture.incomplete
                yield self._page(capture, identity, source)
                continue
            if capture.reason == "damaged":
                budget.spend(_damaged(shard.path, record, capture.detail))
            yield self.reject(identity, capture.reason, capture.detail or capture.url), record

    def original(self, record: str | RawRecord) -> str:
        """Return the markup of a page, or the content of a record."""
        return record if isinstance(record, str) else record.data.decode("utf-8", "backslashreplace")


def _range(path: str, index: int, start: int, end: int, framing: str) -> Shard:
    return Shard(path, index, start, end, weight=end - start, hints={"framing": framing})


def _packed(path: str, index: int, start: int, end: int, weight: int, records: list[RawRecord]) -> Shard:
    return Shard(path, index, start, end, weight=weight, data=msgspec.msgpack.encode(records))


def _damaged(path: str, record: RawRecord, detail: str) -> InputError:
    return InputError(f"a record is damaged: {detail}", where=f"{path}, byte {record.position}", fix=DOWNLOAD_AGAIN)
