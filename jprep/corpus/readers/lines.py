"""Readers of text that is cut at newlines: CC-100, plain text, JSON Lines."""

from __future__ import annotations

import codecs
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from jprep.corpus.document import Document, Reject
from jprep.corpus.readers import cut, encoding
from jprep.corpus.readers.fields import FieldConfig, dig, document
from jprep.corpus.readers.record import MB, Budget, Item, Place, RecordConfig, RecordReader, prefix
from jprep.corpus.step import Positive, Shard
from jprep.errors import ConfigError, InputError
from jprep.io.inputs.limits import MAX_RATIO
from jprep.io.inputs.paths import size_of
from jprep.io.inputs.streams import is_plain, open_input
from jprep.plugins.references import suggest_name

_ONE_DOCUMENT = 8 * MB
# The longest novels have some 5 MB: a larger file is a collection.
_SAMPLE = 1 << 20
_SAMPLE_LINES = 100


class LineConfig(RecordConfig, frozen=True):
    """Options of every reader of lines.

    Attributes:
        max_record_mb: million bytes that one document, or the line that holds it, may have.
        max_ratio: how far compressed input may expand before it is taken for a decompression bomb.
    """

    max_record_mb: Positive = 256.0
    max_ratio: Positive = MAX_RATIO


class LineReader(RecordReader):
    """Cuts an input at newlines or blank lines.

    A local uncompressed file is cut into byte ranges, which tasks read for themselves. Everything else (compressed,
    remote, a pipe) is read once from its start, and a shard carries its bytes.
    """

    encoding = "utf-8"

    @property
    def ids_are_places(self) -> bool:
        """Yes, unless records bring their own."""
        return True

    class Config(LineConfig, frozen=True):
        """Options of every reader of lines."""

    def shards(self, path: str) -> Iterator[Shard]:
        """Cut one input into shards: the same ones whenever and wherever it is called."""
        plain = is_plain(path)
        with open_input(path, max_ratio=self.config.max_ratio) as stream:
            cutter = cut.Cutter(stream, path, self._limit())
            hints = self._hints(cutter, path)
            if plain:
                yield from self._ranges(path, hints)
                return
            done = 0
            for index, piece in enumerate(cutter.pieces(cut.SEPARATORS[hints["documents"]], self._shard_bytes())):
                weight, done = stream.consumed - done, stream.consumed
                end = piece.start + len(piece.data)
                yield Shard(path, index, piece.start, end, weight=weight, data=piece.data, hints=hints)

    def _ranges(self, path: str, hints: dict[str, str]) -> Iterator[Shard]:
        size = size_of(path) or 0
        step = size if hints["documents"] == "file" else self._shard_bytes()
        if hints["documents"] == "file" and size > self._limit():
            raise cut.too_large(path, 0, self._limit())
        for index, start in enumerate(range(0, size, step or 1)):
            end = min(start + step, size)
            yield Shard(path, index, start, end, weight=end - start, hints=hints)

    def _limit(self) -> int:
        return int(self.config.max_record_mb * MB)

    def _shard_bytes(self) -> int:
        return max(1, int(self.config.shard_mb * MB))

    @abstractmethod
    def _hints(self, cutter: cut.Cutter, path: str) -> dict[str, str]:
        """What the head of the input tells: `documents`, what separates records, is a key of `cut.SEPARATORS`."""

    def _items(self, shard: Shard, source: str, budget: Budget) -> Iterator[Item]:
        separator = cut.SEPARATORS[shard.hints["documents"]]
        piece = self._piece(shard, separator)
        start, whole = prefix(shard, source), shard.hints["documents"] == "file"
        for offset, record in cut.records(piece, separator, shard.path, self._limit()):
            data = self._without_bom(record) if offset == 0 else record
            if whole or data.strip(b"\r\n"):
                identity = start if whole else f"{start}:{offset}"
                yield self._item(data, Place(shard.path, offset + len(record) - len(data), identity, source), budget)

    def _piece(self, shard: Shard, separator: cut.Separator) -> cut.Piece:
        if shard.data is not None:
            return cut.Piece(shard.start, shard.data)
        with open_input(shard.path) as stream:
            return cut.ranged(stream, shard.path, shard.start, shard.end, separator, self._limit())

    def _without_bom(self, data: bytes) -> bytes:
        if self.encoding == "utf-8" and data.startswith(codecs.BOM_UTF8):
            self.tally["bom.deleted"] += 1
            return data.removeprefix(codecs.BOM_UTF8)
        return data

    def _item(self, data: bytes, place: Place, budget: Budget) -> Item:
        """What one record makes."""
        try:
            text = data.decode(self.encoding)
        except UnicodeDecodeError as error:
            return self._undecodable(place, error, budget)
        return self._document(Document(place.identity, place.source, "", "", text))

    def _undecodable(self, place: Place, error: UnicodeDecodeError, budget: Budget) -> Reject:
        at = place.offset + error.start
        option = "encoding" in self.config.__struct_fields__
        budget.spend(encoding.undecodable(f"{place.path}, byte {at}", error, option=option))
        reason = f"invalid_{self.encoding.replace('-', '')}"
        return self._reject(place.identity, reason, f"byte {at}: {encoding.excerpt(error)}")


class Cc100Reader(LineReader):
    """CC-100's form: one paragraph a line, a blank line between documents. Ids: `source:file:byte offset`."""

    name = "cc100"
    version = 1

    def _hints(self, cutter: cut.Cutter, path: str) -> dict[str, str]:
        return {"documents": "blank_line"}


class TextReader(LineReader):
    """Plain text, one paragraph a line. Ids: `source:file` where a file is a document, else with the byte offset."""

    name = "text"
    version = 1

    class Config(LineConfig, frozen=True):
        """Options of the reader `text`.

        Attributes:
            documents: what is one document. `auto`: a file of up to 8 MB; in a larger one, what stands between blank
                lines, or each line if its first 8 MB hold no blank line.
            encoding: the text's encoding.
        """

        documents: Literal["auto", "file", "blank_line", "line"] = "auto"
        encoding: Literal["utf-8", "cp932", "shift_jis", "euc_jp"] = "utf-8"

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.encoding = self.config.encoding

    def _hints(self, cutter: cut.Cutter, path: str) -> dict[str, str]:
        chosen = self.config.documents
        return {"documents": self._looks(cutter) if chosen == "auto" else chosen}

    @staticmethod
    def _looks(cutter: cut.Cutter) -> str:
        head = cutter.head(_ONE_DOCUMENT + 1)
        if len(head) <= _ONE_DOCUMENT:
            return "file"
        return "blank_line" if cut.SEPARATORS["blank_line"].pattern.search(head) else "line"


class JsonlReader(LineReader):
    """JSON Lines: one object a line, any fields. Ids: the field `id`, or `source:file:byte offset`."""

    name = "jsonl"
    version = 1

    class Config(FieldConfig, frozen=True):
        """Options of the reader `jsonl`: which fields to take, and the limits that `LineConfig` explains."""

        max_record_mb: Positive = LineConfig().max_record_mb
        max_ratio: Positive = MAX_RATIO

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        tops = sorted({name.split(".")[0] for name in self.config.names()})
        # Only what is needed becomes objects: the decoder skips the rest.
        fields = [(f"f{i}", Any, msgspec.UNSET) for i in range(len(tops))]
        kind = msgspec.defstruct("Record", fields, rename={f"f{i}": top for i, top in enumerate(tops)})
        self._tops = tops
        self._decoder = msgspec.json.Decoder(kind)

    @property
    def ids_are_places(self) -> bool:
        """Whether no field gives the ids."""
        return not self.config.id

    def _hints(self, cutter: cut.Cutter, path: str) -> dict[str, str]:
        lines = cutter.head(_SAMPLE).split(b"\n", _SAMPLE_LINES)[:_SAMPLE_LINES]
        found = [record for line in lines if isinstance(record := _lenient(line), dict)]
        if found and all(dig(record, self.config.text) is msgspec.UNSET for record in found):
            fix = suggest_name(self.config.text, {name for record in found for name in record})
            raise ConfigError(f"no object has the field {self.config.text!r}", where=path, fix=f"`text = ...`: {fix}")
        return {"documents": "line"}

    def _item(self, data: bytes, place: Place, budget: Budget) -> Item:
        try:
            record = self._record(data)
        except UnicodeDecodeError as error:
            return self._undecodable(place, error, budget)
        except (msgspec.DecodeError, RecursionError) as error:
            return self._malformed(data, place, error, budget)
        text = dig(record, self.config.text)
        if not isinstance(text, str):
            return self._reject(place.identity, "no_text", data[:_SAMPLE].decode("utf-8", "replace"))
        return self._document(document(record, text, self.config, place.identity, place.source))

    def _record(self, data: bytes) -> dict[str, Any]:
        try:
            values = self._decoder.decode(data)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            data.decode("utf-8")  # the better reason and place, if this is what is wrong
            raise
        return dict(zip(self._tops, msgspec.structs.astuple(values), strict=True))

    def _malformed(self, data: bytes, place: Place, error: Exception, budget: Budget) -> Reject:
        where = f"{place.path}, byte {place.offset}"
        fix = "mend the line, or let some records be rejected by the reader's option `max_bad = 0.001`"
        budget.spend(InputError(f"this line is no JSON object: {error}", where=where, fix=fix))
        return self._reject(place.identity, "malformed_json", data[:_SAMPLE].decode("utf-8", "replace"))


def _lenient(line: bytes) -> object:
    try:
        return msgspec.json.decode(line.removeprefix(codecs.BOM_UTF8))
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None  # reading it will tell
