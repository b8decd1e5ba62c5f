"""Read the documents or rejects of a corpus as Arrow record batches, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa

from jprep.corpus.document import Document, Reject
from jprep.corpus.store import Manifest, open_shard, rebuild_fix, row_schema, schema_metadata
from jprep.engine.stage import Output
from jprep.errors import ConfigError
from jprep.io.verified_files import verify_file


class Selection(msgspec.Struct, frozen=True):
    """What to read of a corpus.

    Attributes:
        folder: directory of the corpus.
        manifest: its manifest.
        columns: names of the columns, in the order of the result.
        rejects: whether to read the rejects, and not the documents.
    """

    folder: Path
    manifest: Manifest
    columns: tuple[str, ...]
    rejects: bool

    @property
    def parts(self) -> list[Output]:
        """The files to read, in order."""
        return self.manifest.reject_parts if self.rejects else self.manifest.parts

    @property
    def schema(self) -> pa.Schema:
        """The schema of the result, with the metadata that the files have."""
        schema = row_schema(Reject) if self.rejects else _document_schema(self.manifest)
        licences = {source["name"]: source.get("licence", "") for source in self.manifest.sources}
        metadata = schema_metadata(self.manifest.name, self.manifest.fingerprint, licences)
        return pa.schema([schema.field(name) for name in self.columns], metadata)

    def verified_paths(self) -> list[Path]:
        """Return the paths of the files, whose hashes are compared with the manifest.

        Raises:
            DamagedError: a file is missing or damaged.
        """
        return [verify_file(self.folder / part.path, part.sha256, rebuild_fix(self.folder)) for part in self.parts]


def _document_schema(manifest: Manifest) -> pa.Schema:
    return row_schema(Document, manifest.signals, manifest.line_signals)


def select(folder: Path, manifest: Manifest, columns: Sequence[str] | None, *, rejects: bool) -> Selection:
    """Return what to read of a corpus.

    Args:
        folder: directory of the corpus.
        manifest: its manifest.
        columns: names of the columns; None for all.
        rejects: whether to read the rejects, and not the documents.

    Raises:
        ConfigError: there is no such column.
    """
    known = tuple((row_schema(Reject) if rejects else _document_schema(manifest)).names)
    names = known if columns is None else tuple(columns)
    if isinstance(columns, str) or not names or len(set(names)) < len(names):
        fix = 'e.g. columns=["title", "text"]'
        raise ConfigError(f"expected a list of different columns, got {columns!r}", where=str(folder), fix=fix)
    if unknown := [name for name in names if name not in known]:
        what = f"{'rejects' if rejects else 'documents'} have no column {unknown[0]!r}"
        raise ConfigError(what, where=str(folder), fix=f"choose from: {', '.join(known)}")
    return Selection(folder, manifest, names, rejects)


def read_batches(selection: Selection, rows: int) -> Iterator[pa.RecordBatch]:
    """Verify each file and yield its rows.

    Args:
        selection: what to read.
        rows: rows of a batch; the last one of a file has fewer.

    Raises:
        ConfigError: the number of rows is not positive.
        DamagedError: a file is missing or damaged.
        JprepError: a file cannot be read.
    """
    if rows < 1:
        raise ConfigError(f"a batch cannot have {rows} rows", where=str(selection.folder), fix="e.g. batches(1000)")
    schema, columns = selection.schema, list(selection.columns)
    for part in selection.parts:
        with open_shard(selection.folder / part.path, part.sha256) as parquet:
            for batch in parquet.iter_batches(batch_size=rows, columns=columns):
                yield conform(batch, schema)


def read_row_groups(selection: Selection) -> Iterator[pa.RecordBatch]:
    """Verify each file and yield its row groups, each of about a million characters; see `read_batches`."""
    schema, columns = selection.schema, list(selection.columns)
    for part in selection.parts:
        with open_shard(selection.folder / part.path, part.sha256) as parquet:
            for group in range(parquet.num_row_groups):
                batches = parquet.read_row_group(group, columns=columns).to_batches()
                yield from (conform(batch, schema) for batch in batches)


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with a schema's columns, in their order. Buffers are shared, not copied."""
    arrays = [_with_type(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _with_type(array: Any, kind: pa.DataType) -> Any:
    """Return an array with its type; in format 1, `meta` is a map, whose layout is that of a list of pairs."""
    if array.type.equals(kind):
        return array
    pairs = pa.StructArray.from_arrays([array.keys, array.items], fields=list(kind.value_type))
    return pa.ListArray.from_arrays(array.offsets, pairs, type=kind)
