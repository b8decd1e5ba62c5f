"""Reader of Parquet files: rows are documents, row groups make shards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from jprep.corpus.readers import encoding
from jprep.corpus.readers.fields import FieldConfig, get_field, make_document, missing_field
from jprep.corpus.readers.record_reader import MB, ErrorBudget, Item, RecordLocation, RecordReader
from jprep.corpus.step import Shard
from jprep.errors import ConfigError, InputError
from jprep.io.inputs.limits import DOWNLOAD_AGAIN
from jprep.io.inputs.paths import STDIN
from jprep.io.inputs.streams import open_raw

_ROWS = 128
# Rows in memory at a time, so that memory does not depend on the size of the row groups.
_BUFFER = 1 << 20


class ParquetReader(RecordReader):
    """Parquet, one document per row. Ids: the column given by `id`, or `source:file:row`.

    `start` and `end` of a shard are row groups. Local and remote files are read from the middle.
    """

    name = "parquet"
    version = 2
    can_keep_text = True

    class Config(FieldConfig, frozen=True):
        """Options of the reader `parquet`: the columns to read."""

    @property
    def ids_are_positions(self) -> bool:
        """Whether ids are row numbers; False if a column gives the ids."""
        return not self.config.id

    def check_input(self, path: str) -> None:
        """Refuse a file that does not have the columns to read."""
        with _opened(path) as file:
            self._check_columns(file, path)

    def shards(self, path: str) -> Iterator[Shard]:
        """Split one input into shards of consecutive row groups.

        Raises:
            ConfigError: a column does not exist, or the input is a pipe.
            InputError: the file is damaged.
        """
        with _opened(path) as file:
            self._check_columns(file, path)
            groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
        sizes = [(group.total_byte_size, _stored(group)) for group in groups]
        start = size = stored = 0
        index = 0
        for group, (bytes_out, bytes_in) in enumerate(sizes):
            size, stored = size + bytes_out, stored + bytes_in
            if size >= self.config.shard_mb * MB or group == len(sizes) - 1:
                yield Shard(path, index, start, group + 1, weight=stored)
                start, index, size, stored = group + 1, index + 1, 0, 0

    def reads_through(self, path: str) -> bool:
        """Return False: the row groups are listed at the end of a file."""
        return False

    def _check_columns(self, file: pq.ParquetFile, path: str) -> None:
        for option, name in self.config.named():
            if not _has_column(file.schema_arrow, name):
                raise missing_field(f"column {name!r} not found", path, self.config, option, name, _text_bytes(file))

    def items(self, shard: Shard, source: str, budget: ErrorBudget) -> Iterator[tuple[Item, dict[str, Any]]]:
        """Yield the rows of a shard, each with its columns."""
        with _opened(shard.path) as file:
            row = sum(file.metadata.row_group(i).num_rows for i in range(shard.start))
            wanted = list(range(shard.start, shard.end))
            for batch in file.iter_batches(_ROWS, wanted, columns=self.config.names()):
                start = shard.id_prefix(source)
                for row_number, record in enumerate(_rows(batch), row):
                    location = RecordLocation(shard.path, row_number, f"{start}:{row_number}", source)
                    yield self._item(record, location, budget), record
                row += batch.num_rows

    def original(self, record: dict[str, Any]) -> str:
        """Return the columns that were read of a row as JSON."""
        values = _decoded(record, "backslashreplace")
        return json.dumps(values, ensure_ascii=False, indent=2, default=str)

    def _item(self, record: dict[str, Any], location: RecordLocation, budget: ErrorBudget) -> Item:
        try:
            record = _decoded(record)
        except UnicodeDecodeError as error:
            where = f"{location.path}, row {location.offset}"
            budget.spend(encoding.undecodable(where, error, option=False))
            return self.reject(location.identity, "invalid_utf8", encoding.excerpt_around(error))
        text = get_field(record, self.config.text)
        if not isinstance(text, str):
            return self.reject(location.identity, "no_text")
        return self.clean_document(make_document(record, text, self.config, location.identity, location.source))


def _has_column(schema: pa.Schema, name: str) -> bool:
    """Return whether a column exists, or the field of a column of structs that a dotted name stands for."""
    if name in schema.names:
        return True
    kind = pa.struct(list(schema))
    for part in name.split("."):
        index = kind.get_field_index(part) if pa.types.is_struct(kind) else -1
        if index < 0:
            return False
        kind = kind.field(index).type
    return True


def _column_names(field: pa.Field) -> Iterator[str]:
    """Yield the name of a column, and of the fields of a column of structs."""
    yield field.name
    if pa.types.is_struct(field.type):
        yield from (f"{field.name}.{inner.name}" for inner in field.type)


def _text_bytes(file: pq.ParquetFile) -> dict[str, int]:
    """Return the bytes of each column of text in the first row group; 0 for other columns."""
    sizes = {name: 0 for field in file.schema_arrow for name in _column_names(field)}
    group = file.metadata.row_group(0) if file.num_row_groups else None
    for column in (group.column(i) for i in range(group.num_columns)) if group else ():
        if column.path_in_schema in sizes and column.physical_type == "BYTE_ARRAY":
            sizes[column.path_in_schema] = column.total_uncompressed_size
    return sizes


def _rows(batch: pa.RecordBatch) -> Iterator[dict[str, Any]]:
    """Yield rows with strings as bytes, since the strings of some writers are not valid UTF-8."""
    columns = [_as_bytes(batch.column(i)).to_pylist() for i in range(batch.num_columns)]
    return (dict(zip(batch.schema.names, row, strict=True)) for row in zip(*columns, strict=True))


def _as_bytes(column: pa.Array) -> pa.Array:
    return column.cast(_byte_type(column.type))


def _byte_type(kind: pa.DataType) -> pa.DataType:
    """Return the type with strings replaced by bytes, at any depth."""
    if pa.types.is_dictionary(kind):
        return _byte_type(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([(field.name, _byte_type(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_byte_type(kind.value_type))
    return pa.large_binary() if pa.types.is_string(kind) or pa.types.is_large_string(kind) else kind


def _decoded(value: Any, errors: str = "strict") -> Any:
    """Return the value with bytes decoded to strings, at any depth."""
    if isinstance(value, bytes):
        return value.decode("utf-8", errors)
    if isinstance(value, dict):
        return {name: _decoded(inner, errors) for name, inner in value.items()}
    return [_decoded(inner, errors) for inner in value] if isinstance(value, list) else value


def _stored(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(i).total_compressed_size for i in range(group.num_columns))


@contextmanager
def _opened(path: str) -> Iterator[pq.ParquetFile]:
    """Open a local or remote Parquet file. Errors of Arrow are raised as `InputError` with its path."""
    if path == STDIN:
        raise ConfigError("cannot read Parquet from a pipe: its index is at the end", fix="give a file")
    with open_raw(path) as stream:
        try:
            # Buffered; otherwise a whole column of a row group, of any size, would be read into memory at once.
            yield pq.ParquetFile(stream, pre_buffer=False, buffer_size=_BUFFER)
        except (pa.ArrowException, OSError, EOFError) as error:
            what = f"the Parquet file is damaged, or not Parquet: {error}"
            raise InputError(what, where=path, fix=DOWNLOAD_AGAIN) from error
