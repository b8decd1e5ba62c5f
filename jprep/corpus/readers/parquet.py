"""Reader of Parquet files: rows are documents, row groups make shards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jprep.corpus.readers import encoding
from jprep.corpus.readers.fields import FieldConfig, dig, document
from jprep.corpus.readers.record import MB, Budget, Item, Place, RecordReader, prefix
from jprep.corpus.step import Shard
from jprep.errors import ConfigError, InputError
from jprep.io.inputs.limits import DOWNLOAD_AGAIN
from jprep.io.inputs.paths import STDIN
from jprep.io.inputs.streams import open_raw
from jprep.plugins.references import suggest_name

_ROWS = 128
# Held at a time: long documents must not make memory grow with the row group.
_BUFFER = 1 << 20


class ParquetReader(RecordReader):
    """Parquet, one document a row. Ids: the column `id`, or `source:file:row`.

    A shard's `start` and `end` are row groups: it reads from the middle of local and remote files alike.
    """

    name = "parquet"
    version = 1

    class Config(FieldConfig, frozen=True):
        """Options of the reader `parquet`: which columns to take."""

    @property
    def ids_are_places(self) -> bool:
        """Whether no column gives the ids."""
        return not self.config.id

    def shards(self, path: str) -> Iterator[Shard]:
        """Cut one input into shards of neighbouring row groups.

        Raises:
            ConfigError: a column is not there, or the input is a pipe.
            InputError: the file is damaged.
        """
        with _opened(path) as file:
            self._check_columns(file.schema_arrow, path)
            groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        sizes = [(group.total_byte_size, _stored(group)) for group in groups]
        start = size = stored = 0
        index = 0
        for group, (bytes_out, bytes_in) in enumerate(sizes):
            size, stored = size + bytes_out, stored + bytes_in
            if size >= self.config.shard_mb * MB or group == len(sizes) - 1:
                yield Shard(path, index, start, group + 1, weight=stored)
                start, index, size, stored = group + 1, index + 1, 0, 0

    def _check_columns(self, schema: pa.Schema, path: str) -> None:
        for name in self.config.names():
            top, *inner = name.split(".")
            if top not in schema.names or (inner and not pa.types.is_struct(schema.field(top).type)):
                raise ConfigError(f"there is no column {name!r}", where=path, fix=suggest_name(name, schema.names))

    def _items(self, shard: Shard, source: str, budget: Budget) -> Iterator[Item]:
        with _opened(shard.path) as file:
            row = sum(file.metadata.row_group(i).num_rows for i in range(shard.start))
            wanted = list(range(shard.start, shard.end))
            for batch in file.iter_batches(_ROWS, wanted, columns=self.config.names()):
                start = prefix(shard, source)
                for place, record in enumerate(_rows(batch), row):
                    yield self._item(record, Place(shard.path, place, f"{start}:{place}", source), budget)
                row += batch.num_rows

    def _item(self, record: dict[str, Any], place: Place, budget: Budget) -> Item:
        try:
            record = _decoded(record)
        except UnicodeDecodeError as error:
            where = f"{place.path}, row {place.offset}"
            budget.spend(encoding.undecodable(where, error, option=False))
            return self._reject(place.identity, "invalid_utf8", encoding.excerpt(error))
        text = dig(record, self.config.text)
        if not isinstance(text, str):
            return self._reject(place.identity, "no_text")
        return self._document(document(record, text, self.config, place.identity, place.source))


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Rows with their strings as bytes, since a writer may have put bytes there that are no UTF-8."""
    columns = [_as_bytes(batch.column(i)).to_pylist() for i in range(batch.num_columns)]
    return (dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True))


def _as_bytes(column: pa.Array) -> pa.Array:
    return column.cast(_byte_type(column.type))


def _byte_type(kind: pa.DataType) -> pa.DataType:
    """The same type with bytes for strings, at any depth."""
    if pa.types.is_dictionary(kind):
        return _byte_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _byte_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_byte_type(kind.value_type))
    return pa.large_binary() if pa.types.is_string(kind) or pa.types.is_large_string(kind) else kind


def _decoded(value: Any) -> Any:
    """The same value with strings for bytes, at any depth."""
    if isinstance(value, bytes):
        return value.decode("utf-8")
    if isinstance(value, dict):
        return {name: _decoded(inner) for name, inner in value.items()}
    return [_decoded(inner) for inner in value] if isinstance(value, list) else value


def _stored(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(i).total_compressed_size for i in range(group.num_columns))


@contextmanager
def _opened(path: str) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file at any place; what Arrow finds wrong with it names it."""
    if path == STDIN:
        raise ConfigError("Parquet cannot be read from a pipe: its index is at its end", fix="name a file")
    with open_raw(path) as stream:
        try:
            # Buffered: else a whole row group's column, of any size, would be read into memory at once.
            yield pq.ParquetFile(stream, pre_buffer=False, buffer_size=_BUFFER)
        except (pa.ArrowException, OSError, EOFError) as error:
            what = f"the Parquet file is damaged, or is none: {error}"
            raise InputError(what, where=path, fix=DOWNLOAD_AGAIN) from error
