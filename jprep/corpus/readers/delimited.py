"""Readers of tables as text: CSV, and TSV without quoting."""

from __future__ import annotations

import contextlib
import csv
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

import msgspec

from jprep.corpus.document import Document
from jprep.corpus.readers import chunking, encoding
from jprep.corpus.readers.archives import is_spreadsheet, refuse_tar, spreadsheet_error
from jprep.corpus.readers.fields import FieldConfig, missing_field, other_separator
from jprep.corpus.readers.lines import LineConfig, LineReader
from jprep.corpus.readers.quoted_records import read_chunks, split_quoted
from jprep.corpus.readers.record_reader import ErrorBudget, Item, RecordLocation
from jprep.corpus.step import Positive, RecordScan, Shard
from jprep.errors import ConfigError, InputError, Setting
from jprep.io.inputs.limits import MAX_RATIO
from jprep.io.inputs.streams import is_plain, open_input
from jprep.toml_values import toml

_LONGEST_FIELD = 1 << 30
_HEAD = 1 << 16  # bytes read for the names of the columns
_SAMPLE_ROWS = 100  # that show which column is the longest


class TsvReader(LineReader):
    """TSV without quoting, one document per row: no field has a tab or a line feed. Ids: a column, or as of `csv`."""

    name = "tsv"
    version = 2
    separator, quote = "\t", ""

    class Config(FieldConfig, frozen=True):
        """Options of the readers `csv` and `tsv`: the columns to read, and the limits described in `LineConfig`.

        Attributes:
            header: whether the first line names the columns; otherwise they are named by `columns`, or 0, 1, …
            columns: names of the columns of a file without a header, in order.
            encoding: encoding of the text; `cp51932` is EUC-JP with `①`, `㈱`, `髙` and others.
        """

        header: bool = True
        columns: tuple[str, ...] = ()
        encoding: Literal["utf-8", "cp932", "shift_jis", "euc_jp", "cp51932"] = "utf-8"
        max_record_mb: Positive = LineConfig().max_record_mb
        max_ratio: Positive = MAX_RATIO

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.encoding = self.config.encoding
        if self.config.header and self.config.columns:
            fix = "set header = false if the file has no header; otherwise remove `columns`"
            raise ConfigError("both header and columns name the columns", where=f"reader {self.name!r}", fix=fix)

    @property
    def ids_are_positions(self) -> bool:
        """Whether ids are offsets; False if a column gives the ids."""
        return not self.config.id

    def shards(self, path: str) -> Iterator[Shard]:
        """Split one input into shards of whole rows. It is read once from its start, which alone tells where rows end.

        Raises:
            ConfigError: a column does not exist.
            InputError: a row is too large, the header is malformed, or the input is a tar archive.
        """
        plain, done, index, hints = is_plain(path), 0, 0, dict[str, str]()
        with open_input(path, max_ratio=self.config.max_ratio) as stream:
            chunks = read_chunks(stream, path, self._quote, self._shard_bytes(), self._limit())
            for chunk in chunks:
                if not (hints := hints or self._columns(chunk, path)):
                    continue  # blank lines before the first row
                end = chunk.start + len(chunk.data)
                weight, done = (len(chunk.data) if plain else stream.consumed - done), stream.consumed
                data = None if plain else chunk.data
                yield Shard(path, index, chunk.start, end, weight=weight, data=data, hints=hints)
                index += 1

    def check_input(self, path: str) -> None:
        """Refuse a file that does not have the columns to read."""
        with open_input(path, max_ratio=self.config.max_ratio) as stream:
            chunks = read_chunks(stream, path, self._quote, _HEAD, self._limit())
            any(self._columns(chunk, path) for chunk in chunks)  # up to the first row

    def reads_through(self, path: str) -> bool:
        """Return True: where rows end can only be told from the start."""
        return True

    def record_scan(self, path: str) -> RecordScan | None:
        """Return None: where rows end can only be told from the start."""
        return None

    @property
    def _quote(self) -> bytes:
        return self.quote.encode()

    def _hints(self, chunker: chunking.Chunker, path: str) -> dict[str, str]:
        raise NotImplementedError  # `shards` has its own

    def _columns(self, first: chunking.Chunk, path: str) -> dict[str, str]:
        """Return the names of the columns, and the offset of the first row; nothing if all lines are blank."""
        if first.start == 0:
            refuse_tar(first.data, path)  # its header, which has no line ends, is in the first row
            if is_spreadsheet(first.data):
                raise spreadsheet_error(path, self.name.upper())
        for offset, record in split_quoted(first, path, self._quote, self._limit()):
            data = record.removeprefix(b"\xef\xbb\xbf") if offset == 0 else record
            if not data.strip(b"\r\n"):
                continue
            fields = self._header(data, f"{path}, byte {offset}", first.data)
            given = list(self.config.columns) or [str(number) for number in range(len(fields))]
            names = fields if self.config.header else given
            begin = offset + len(record) if self.config.header else offset
            self._check_columns(names, path, first, begin)
            return {"columns": msgspec.json.encode(names).decode(), "begin": str(begin)}
        return {}

    def _header(self, data: bytes, where: str, sample: bytes) -> list[str]:
        try:
            return self._fields(data.decode(self.encoding))
        except UnicodeDecodeError as error:
            raise encoding.undecodable(where, error, option=True, sample=sample) from error
        except ValueError as error:
            raise InputError(f"the first line is malformed: {error}", where=where, fix="check `quote`") from error

    def _check_columns(self, names: Sequence[str], path: str, first: chunking.Chunk, begin: int) -> None:
        if twice := [name for name in names if names.count(name) > 1]:
            fix = "set header = false and name the columns with `columns`"
            what = f"two columns are called {twice[0]!r}"
            raise ConfigError(what, where=path, fix=fix, setting=Setting("header", value=False))
        for option, name in self.config.named():
            if name not in names:
                self._refuse_other_separator(names, path)
                lengths = self._text_lengths(names, path, first, begin)
                raise missing_field(f"column {name!r} not found", path, self.config, option, name, lengths)

    def _refuse_other_separator(self, names: Sequence[str], path: str) -> None:
        if self.config.header and (found := other_separator(names, self.separator)):
            fix = self._separator_fix(found.mark, path)
            raise ConfigError(found.what, where=path, fix=fix, setting=Setting("separator", found.mark))

    def _separator_fix(self, found: str, path: str) -> str:
        reader = toml({"use": "csv", **({} if found == "," else {"separator": found})})
        return f"read the file as CSV: --csv {shlex.quote(path)}, in a recipe reader = {reader}"

    def _text_lengths(self, names: Sequence[str], path: str, first: chunking.Chunk, begin: int) -> dict[str, int]:
        """Return the length of each column's texts in the first rows."""
        lengths = dict.fromkeys(names, 0)
        rows = (row for offset, row in split_quoted(first, path, self._quote, self._limit()) if offset >= begin)
        for row in islice(rows, _SAMPLE_ROWS):
            with contextlib.suppress(ValueError):  # a malformed row, which is an error when it is read
                for name, value in zip(names, self._fields(row.decode(self.encoding)), strict=True):
                    lengths[name] += len(value)
        return lengths

    def _fields(self, record: str) -> list[str]:
        """Return the fields of a record.

        Raises:
            ValueError: it is malformed.
        """
        return record.rstrip("\r\n").split(self.separator)

    def items(self, shard: Shard, source: str, budget: ErrorBudget) -> Iterator[tuple[Item, bytes]]:
        """Yield the rows of a shard, each with its bytes."""
        names, begin = msgspec.json.decode(shard.hints["columns"], type=list[str]), int(shard.hints["begin"])
        prefix = shard.id_prefix(source)
        for offset, record in split_quoted(self._rows(shard), shard.path, self._quote, self._limit()):
            data = self._without_bom(record) if offset == 0 else record
            if offset >= begin and data.strip(b"\r\n"):
                location = RecordLocation(shard.path, offset + len(record) - len(data), f"{prefix}:{offset}", source)
                yield self._row(data, names, location, budget), data

    def _rows(self, shard: Shard) -> chunking.Chunk:
        if shard.data is not None:
            return chunking.Chunk(shard.start, shard.data)
        with open_input(shard.path, start=shard.start) as stream:
            return chunking.Chunk(shard.start, stream.read(shard.end - shard.start))

    def _row(self, data: bytes, names: Sequence[str], location: RecordLocation, budget: ErrorBudget) -> Item:
        """Convert one row to a document or a reject."""
        try:
            fields = self._fields(data.decode(self.encoding))
            if len(fields) != len(names):
                raise ValueError(f"found {len(fields)} fields, expected {len(names)}")
        except UnicodeDecodeError as error:
            return self._undecodable(location, error, budget)
        except ValueError as error:
            return self._malformed(data, location, error, budget)
        return self.clean_document(self._make_document(dict(zip(names, fields, strict=True)), location))

    def _make_document(self, values: Mapping[str, str], location: RecordLocation) -> Document:
        config, source = self.config, location.source
        own = values[config.id] if config.id else ""
        return Document(
            id=f"{source}:{own}" if own else location.identity,
            source=source,
            title=values[config.title] if config.title else "",
            url=values[config.url] if config.url else "",
            text=values[config.text],
            meta={name: values[name] for name in config.meta if values[name]},
        )

    def _malformed(self, data: bytes, location: RecordLocation, error: Exception, budget: ErrorBudget) -> Item:
        where, lines = f"{location.path}, byte {location.offset}", data.rstrip(b"\r\n").count(b"\n") + 1
        if lines > 1:
            error = ValueError(f"{error}, in {lines} lines: perhaps a quotation mark is not closed")
            self.tally["malformed.lines_joined"] += lines - 1
        fix = "correct the row, or check `quote` and `separator`"
        budget.spend(InputError(f"not a row of this table: {error}", where=where, fix=fix))
        return self.reject(location.identity, f"malformed_{self.name}", data.decode(self.encoding, "replace"))


class CsvReader(TsvReader):
    """CSV, one document per row; quoted fields may have line feeds. Ids: a column, or `source:file:byte offset`.

    A line feed ends a row if the quotation marks before it are balanced.
    """

    name = "csv"
    version = 2

    class Config(TsvReader.Config, frozen=True):
        """Options of the reader `csv`.

        Attributes:
            separator: the character between two fields.
            quote: the quotation mark, doubled inside of a quoted field; "" if the file has none.
        """

        separator: str = ","
        quote: str = '"'

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self.separator, self.quote = self.config.separator, self.config.quote
        for name, text, most in (("separator", self.separator, 1), ("quote", self.quote, 0)):
            if not most <= len(text) <= 1 or not text.isascii() or text in ("\n", "\r") or self.separator == self.quote:
                fix = 'e.g. separator = ";", quote = "\'"'
                raise ConfigError(f"{name} must be one ASCII character", where="reader 'csv'", fix=fix)
        if self.quote >= "@" and self.encoding in ("cp932", "shift_jis"):  # it is the second byte of other characters
            what, fix = (
                f"quote = {self.quote!r} cannot be used in {self.encoding}",
                "choose another, or convert to UTF-8",
            )
            raise ConfigError(what, where="reader 'csv'", fix=fix)

    def _separator_fix(self, found: str, path: str) -> str:
        return f"set `separator = {toml(found)}`"

    def _fields(self, record: str) -> list[str]:
        csv.field_size_limit(_LONGEST_FIELD)
        quoting = {"quotechar": self.quote} if self.quote else {"quoting": csv.QUOTE_NONE, "quotechar": None}
        try:
            rows = list(csv.reader([record], delimiter=self.separator, strict=True, **quoting))
        except csv.Error as error:
            raise ValueError(str(error)) from error
        if len(rows) != 1:
            raise ValueError("a quotation mark inside of a field without quotes")
        return rows[0]
