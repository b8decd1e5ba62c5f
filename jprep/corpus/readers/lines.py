"""Readers of line-based text: CC-100, plain text, JSON Lines."""

from __future__ import annotations

import codecs
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from jprep.corpus.document import Document, Reject
from jprep.corpus.readers import chunking, encoding
from jprep.corpus.readers.archives import TAR_HEAD, refuse_tar
from jprep.corpus.readers.detection import detect_encoding, with_extensions
from jprep.corpus.readers.fields import FieldConfig, check_fields, get_field, make_document
from jprep.corpus.readers.record_reader import (
    MB,
    ErrorBudget,
    Item,
    RecordConfig,
    RecordLocation,
    RecordReader,
)
from jprep.corpus.step import Positive, RecordScan, Shard
from jprep.errors import InputError, Setting
from jprep.io.inputs.limits import MAX_RATIO
from jprep.io.inputs.paths import size_of
from jprep.io.inputs.streams import is_plain, open_input

_ONE_DOCUMENT = 8 * MB
# The longest novels have about 5 MB: a larger file is a collection of documents.
_SCANNED_SHARD = 2 << 20
# Smaller shards may share a task; which ones do depends on where the decoder stands when it is read from the start.
_SAMPLE = 1 << 20
_SAMPLE_LINES = 100


class LineConfig(RecordConfig, frozen=True):
    """Options of all line-based readers.

    Attributes:
        max_record_mb: maximum size of a document, or of the line that holds it, in million bytes.
        max_ratio: maximum ratio of decompressed to compressed bytes, as protection from decompression bombs.
    """

    max_record_mb: Positive = 256.0
    max_ratio: Positive = MAX_RATIO


class LineReader(RecordReader):
    """Splits an input at newlines or blank lines.

    A local uncompressed file is divided into byte ranges, which the tasks read. Any other input (compressed, remote, a
    pipe) is read once from its start, and the shards contain its bytes.
    """

    can_keep_text = True
    encoding = "utf-8"
    _could_detect = False
    """Whether `encoding = "detect"` is an option that is not set."""

    @property
    def ids_are_positions(self) -> bool:
        """Whether ids are offsets; True unless the records have ids of their own."""
        return True

    class Config(LineConfig, frozen=True):
        """Options of all line-based readers."""

    def shards(self, path: str) -> Iterator[Shard]:
        """Split one input into shards.

        Raises:
            InputError: a document is too large, or the input is damaged or a tar archive.
        """
        plain = is_plain(path)
        with open_input(path, max_ratio=self.config.max_ratio) as stream:
            chunker = chunking.Chunker(stream, path, self._limit())
            hints = self._examine(chunker, path)
            if plain:
                yield from self._ranges(path, hints)
                return
            done = 0
            for index, chunk in enumerate(self._chunks(chunker, hints["documents"])):
                weight, done = stream.consumed - done, stream.consumed
                end = chunk.start + len(chunk.data)
                yield Shard(path, index, chunk.start, end, weight=weight, data=chunk.data, hints=hints)

    def record_scan(self, path: str) -> RecordScan | None:
        """Return how `shards` cuts a compressed input; None for small shards, and where a file is a document."""
        if self._shard_bytes() < _SCANNED_SHARD:
            return None
        with open_input(path, max_ratio=self.config.max_ratio) as stream:
            hints = self._examine(chunking.Chunker(stream, path, self._limit()), path)
        if hints["documents"] == "file":
            return None
        return RecordScan(hints["documents"], self._shard_bytes(), self._limit(), hints, self.config.max_ratio)

    def _ranges(self, path: str, hints: dict[str, str]) -> Iterator[Shard]:
        size, step = size_of(path) or 0, self._shard_bytes()
        if hints["documents"] == "file":
            if size > self._limit():
                raise chunking.record_too_large(path, 0, self._limit())
            yield Shard(path, 0, 0, size, weight=size, hints=hints)  # an empty file, too: it is an empty document
            return
        for index, start in enumerate(range(0, size, step)):
            end = min(start + step, size)
            yield Shard(path, index, start, end, weight=end - start, hints=hints)

    def _chunks(self, chunker: chunking.Chunker, documents: str) -> Iterator[chunking.Chunk]:
        if documents == "file" and not chunker.head(1):
            yield chunking.Chunk(0, b"")
        yield from chunker.chunks(chunking.SEPARATORS[documents], self._shard_bytes())

    def _limit(self) -> int:
        return int(self.config.max_record_mb * MB)

    def _shard_bytes(self) -> int:
        return max(1, int(self.config.shard_mb * MB))

    def _examine(self, chunker: chunking.Chunker, path: str) -> dict[str, str]:
        refuse_tar(chunker.head(TAR_HEAD), path)
        return self._hints(chunker, path)

    @abstractmethod
    def _hints(self, chunker: chunking.Chunker, path: str) -> dict[str, str]:
        """Return hints from the head of the input. `documents` is the separator, a key of `chunking.SEPARATORS`."""

    def items(self, shard: Shard, source: str, budget: ErrorBudget) -> Iterator[tuple[Item, bytes]]:
        """Yield the records of a shard, each with its bytes."""
        start, whole = shard.id_prefix(source), shard.hints["documents"] == "file"
        for offset, record in self._records(shard, whole=whole):
            data = self._without_bom(record) if offset == 0 else record
            data = data.lstrip(b"\r\n") if self.as_is and not whole else data  # what separates records is not text
            if whole or data.strip(b"\r\n"):
                identity = start if whole else f"{start}:{offset}"
                location = RecordLocation(shard.path, offset + len(record) - len(data), identity, source)
                kept = data.rstrip(b"\r\n") if self.as_is and not whole else data
                yield self._item(kept, location, budget), data

    def _records(self, shard: Shard, *, whole: bool) -> Iterator[tuple[int, bytes]]:
        separator = chunking.SEPARATORS[shard.hints["documents"]]
        chunk = self._chunk(shard, separator)
        if whole and not chunk.data:
            return iter([(0, b"")])
        return chunking.split_records(chunk, separator, shard.path, self._limit())

    def original(self, record: bytes) -> str:
        """Return the text of a record."""
        return record.rstrip(b"\r\n").decode(self.encoding, "backslashreplace")

    def _chunk(self, shard: Shard, separator: chunking.RecordSeparator) -> chunking.Chunk:
        if shard.data is not None:
            return chunking.Chunk(shard.start, shard.data)
        with open_input(shard.path) as stream:
            return chunking.read_range(stream, shard.path, shard.start, shard.end, separator, self._limit())

    def _without_bom(self, data: bytes) -> bytes:
        if self.encoding == "utf-8" and data.startswith(codecs.BOM_UTF8):
            self.tally["bom.deleted"] += 1
            return data.removeprefix(codecs.BOM_UTF8)
        return data

    def _item(self, data: bytes, location: RecordLocation, budget: ErrorBudget) -> Item:
        """Convert one record to a document or a reject."""
        try:
            text = data.decode(self.encoding)
        except UnicodeDecodeError as error:
            return self._undecodable(location, error, budget)
        return self.clean_document(Document(location.identity, location.source, "", "", text))

    def _undecodable(self, location: RecordLocation, error: UnicodeDecodeError, budget: ErrorBudget) -> Reject:
        at = location.offset + error.start
        option, where = "encoding" in self.config.__struct_fields__, f"{location.path}, byte {at}"
        budget.spend(encoding.undecodable(where, error, option=option, detects=self._could_detect))
        reason = f"invalid_{self.encoding.replace('-', '')}"
        return self.reject(location.identity, reason, f"byte {at}: {encoding.excerpt_around(error)}")


class Cc100Reader(LineReader):
    """CC-100: one paragraph per line, a blank line between documents. Ids: `source:file:byte offset`."""

    name = "cc100"
    version = 2

    def _hints(self, chunker: chunking.Chunker, path: str) -> dict[str, str]:
        return {"documents": "blank_line"}


class TextReader(LineReader):
    """Plain text, one paragraph per line. Ids: `source:file` if a file is a document, else with the byte offset."""

    name = "text"
    version = 3

    class Config(LineConfig, frozen=True):
        """Options of the reader `text`.

        Attributes:
            documents: what a document is. `auto`: a whole file of up to 8 MB; in a larger file, the text between blank
                lines, or each line if the first 8 MB contain no blank line.
            encoding: encoding of the text; `cp51932` is EUC-JP with `①`, `㈱`, `髙` and others. `detect` finds out the
                one of each file, from its first 8 MB.
        """

        documents: Literal["auto", "file", "blank_line", "line"] = "auto"
        encoding: Literal[
            "utf-8", "cp932", "shift_jis", "euc_jp", "cp51932", "euc_jis_2004", "iso2022_jp", "detect"
        ] = "utf-8"

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.encoding = self.config.encoding
        self._could_detect = self.encoding != "detect"

    def read(self, shard: Shard, source: str) -> Iterator[Item]:
        """Yield the documents and rejects of one shard, in order, see `RecordReader.read`."""
        return super(TextReader, self._in_encoding_of(shard)).read(shard, source)

    def read_with_originals(self, shard: Shard, source: str) -> Iterator[tuple[Item, str]]:
        """Yield the documents and rejects of one shard, in order, each with its record as text."""
        return super(TextReader, self._in_encoding_of(shard)).read_with_originals(shard, source)

    def _in_encoding_of(self, shard: Shard) -> TextReader:
        """Return a reader of the encoding that was detected for the shard's file; it counts in this reader's tally."""
        if "encoding" not in shard.hints:
            return self
        reader = TextReader(self.config)
        reader.encoding, reader.tally, reader.as_is = shard.hints["encoding"], self.tally, self.as_is
        return reader

    def _hints(self, chunker: chunking.Chunker, path: str) -> dict[str, str]:
        chosen = self.config.documents
        hints = {"documents": self._detect_separator(chunker) if chosen == "auto" else chosen}
        if self.config.encoding == "detect":
            head = chunker.head(_ONE_DOCUMENT + 1)
            detected = detect_encoding(head, complete=len(head) <= _ONE_DOCUMENT)
            hints["encoding"] = with_extensions(detected) or "utf-8"
            self._refuse_utf16(hints, path)
        return hints

    @staticmethod
    def _refuse_utf16(hints: dict[str, str], path: str) -> None:
        if hints["encoding"] == "utf-16" and hints["documents"] != "file":
            fix = 'convert it (iconv -f utf-16 -t utf-8), or set documents = "file"'
            what = "the file is UTF-16, which cannot be split into lines by bytes"
            raise InputError(what, where=path, fix=fix, setting=Setting("documents", "file"))

    @staticmethod
    def _detect_separator(chunker: chunking.Chunker) -> str:
        head = chunker.head(_ONE_DOCUMENT + 1)
        if len(head) <= _ONE_DOCUMENT:
            return "file"
        return "blank_line" if chunking.SEPARATORS["blank_line"].pattern.search(head) else "line"


class JsonlReader(LineReader):
    """JSON Lines: one object per line, any fields. Ids: the field given by `id`, or `source:file:byte offset`."""

    name = "jsonl"
    version = 2
    meta_is_checked = True

    class Config(FieldConfig, frozen=True):
        """Options of the reader `jsonl`: the fields to read, and the limits described in `LineConfig`."""

        max_record_mb: Positive = LineConfig().max_record_mb
        max_ratio: Positive = MAX_RATIO

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        tops = sorted({top for name in self.config.names() for top in (name, name.split(".")[0])})
        # A struct type with the needed fields: the decoder skips all others.
        fields = [(f"f{i}", Any, msgspec.UNSET) for i in range(len(tops))]
        kind = msgspec.defstruct("Record", fields, rename={f"f{i}": top for i, top in enumerate(tops)})
        self._tops = tops
        self._decoder = msgspec.json.Decoder(kind)

    @property
    def ids_are_positions(self) -> bool:
        """Whether ids are offsets; False if a field gives the ids."""
        return not self.config.id

    def check_input(self, path: str) -> None:
        """Refuse a file whose first objects do not have the fields to read."""
        with open_input(path, max_ratio=self.config.max_ratio) as stream:
            self._examine(chunking.Chunker(stream, path, self._limit()), path)

    def _hints(self, chunker: chunking.Chunker, path: str) -> dict[str, str]:
        lines = chunker.head(_SAMPLE).split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES]
        check_fields([_lenient(line) for line in lines], self.config, path, meta=self.meta_is_checked)
        return {"documents": "line"}

    def _item(self, data: bytes, location: RecordLocation, budget: ErrorBudget) -> Item:
        try:
            record = self._record(data)
        except UnicodeDecodeError as error:
            return self._undecodable(location, error, budget)
        except (msgspec.DecodeError, RecursionError) as error:
            return self._malformed(data, location, error, budget)
        text = get_field(record, self.config.text)
        if not isinstance(text, str):
            return self.reject(location.identity, "no_text", data[:_SAMPLE].decode("utf-8", "replace"))
        return self.clean_document(make_document(record, text, self.config, location.identity, location.source))

    def _record(self, data: bytes) -> dict[str, Any]:
        try:
            values = self._decoder.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            data.decode("utf-8")  # gives a better error if the encoding is wrong
            raise
        return dict(zip(self._tops, msgspec.structs.astuple(values), strict=True))

    def _malformed(self, data: bytes, location: RecordLocation, error: Exception, budget: ErrorBudget) -> Reject:
        where = f"{location.path}, byte {location.offset}"
        budget.spend(InputError(f"not a JSON object: {error}", where=where, fix="correct the line"))
        return self.reject(location.identity, "malformed_json", data[:_SAMPLE].decode("utf-8", "replace"))


def _lenient(line: bytes) -> object:
    try:
        return msgspec.json.decode(line.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None  # the error is raised when the line is read
