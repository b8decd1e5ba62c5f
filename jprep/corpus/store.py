"""Read and write a corpus directory: Parquet shards of documents, Parquet files of rejects, and `corpus.json`."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jprep.corpus.decontamination.findings import ItemCounts
from jprep.corpus.document import Document, Reject
from jprep.engine import manifest
from jprep.engine.stage import Output
from jprep.errors import ConfigError, JprepError
from jprep.io.atomic import atomic_path, file_sha256
from jprep.io.verified_files import verify_file

FORMAT = 2
"""Version of the file format; part of the fingerprint.

Format 1 is still readable: its rejects have the suffix `.parquet`, `meta` is a map, and its files have no metadata.
"""

MANIFEST = "corpus.json"
TOTALS_PREFIX = "total."
"""Prefix of the counts that become the totals of a manifest."""

DOCUMENTS, REJECTS = "documents", "rejects"
DOCUMENTS_SUFFIX, REJECTS_SUFFIX = ".parquet", ".rejects"
"""Both are Parquet, but the pattern `**/*.parquet` must match documents only."""
_ROW_GROUP = 1_000_000  # characters: about 3 MB of UTF-8 in each of `text` and `words`
_REJECT_SIZE = 100  # approximate characters in a row of rejects
_READ_ROWS = 256
_NESTED = ("meta", "signals", "line_signals")  # columns of types other than text

Row = TypeVar("Row", Document, Reject)


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The manifest of a corpus, `corpus.json`.

    Attributes:
        jprep: version of jprep that built the corpus.
        format: format of the files, see `FORMAT`.
        name: name of the recipe.
        signature: one line that identifies the corpus, to cite beside results.
        fingerprint: hash of `made_from`.
        made_from: fingerprint fields of each stage: inputs with size and hash, steps with version, config and
            provenance, libraries.
        sources: name, licence, homepage and files (with size and hash) of each source.
        totals: numbers of documents, paragraphs, sentences, words, characters and bytes of `text`.
        counts: all counts of the steps, by dotted name.
        rejects: number of rejected documents, by `step/reason`.
        parts: the shards of documents, in order.
        reject_parts: the files of rejects.
        test_sets: what was found of each test set.
        test_items: lists of the items of test sets that were found or not looked for, one file for each test set.
    """

    jprep: str
    format: int
    name: str
    signature: str
    fingerprint: str
    made_from: dict[str, Any]
    sources: list[dict[str, Any]]
    totals: dict[str, int]
    counts: dict[str, int]
    rejects: dict[str, int]
    parts: list[Output]
    reject_parts: list[Output]
    test_sets: list[ItemCounts] = []
    test_items: list[Output] = []

    @property
    def files(self) -> list[Output]:
        """All files of the corpus except the manifest."""
        return [*self.parts, *self.reject_parts, *self.test_items]

    @property
    def documents_by_source(self) -> dict[str, int]:
        """The number of documents of each source, in the order of the sources."""
        counts = {source["name"]: 0 for source in self.sources}
        names = list(counts)
        for part in self.parts:
            counts[names[int(Path(part.path).name.partition("-")[0])]] += part.rows
        return counts

    @property
    def segmenter(self) -> dict[str, Any] | None:
        """Description of the segmenter; None for a corpus without words."""
        return segmenter_of(self.made_from)

    @property
    def described_signals(self) -> list[dict[str, Any]]:
        """The signals that the files have: name, version, config, provenance and columns of each."""
        return self._described("signals")

    @property
    def described_line_signals(self) -> list[dict[str, Any]]:
        """The signals of lines that the files have, described like the signals."""
        return self._described("line_signals")

    def _described(self, key: str) -> list[dict[str, Any]]:
        last: dict[str, Any] = self.made_from["filtered"][-1] if "filtered" in self.made_from else {}
        return list((last or self.made_from["documents"]).get(key, []))

    @property
    def signals(self) -> list[str]:
        """The columns of signals, in the order of the files."""
        return [column for signal in self.described_signals for column in signal["columns"]]

    @property
    def line_signals(self) -> list[str]:
        """The columns of signals of lines, in the order of the files."""
        return [column for signal in self.described_line_signals for column in signal["columns"]]


def segmenter_of(made_from: dict[str, Any]) -> dict[str, Any] | None:
    """Return the description of the segmenter in `made_from`; see `Manifest.segmenter`."""
    segmenter: dict[str, Any] = made_from.get("words", made_from["documents"])["segmenter"]
    return None if segmenter["name"] == "none" else segmenter


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a finished corpus.

    Raises:
        ConfigError: the folder holds no finished corpus, or one written by a later version of jprep.
    """
    found = manifest.read_manifest(folder / MANIFEST, Manifest, what="corpus", command="jprep corpus build")
    if found.format > FORMAT:
        what = f"this corpus has format {found.format}; this version of jprep reads formats up to {FORMAT}"
        raise ConfigError(what, where=str(folder), fix=f"install jprep {found.jprep} or later")
    return found


def write_manifest(folder: Path, corpus: Manifest) -> None:
    """Write the manifest, which marks the corpus as finished."""
    manifest.write_manifest(folder / MANIFEST, corpus)


class RowWriter:
    """Writes documents or rejects to one Parquet file, in row groups of bounded size; see `row_writer`.

    Attributes:
        written: rows written to the file so far.
        output: the file with its hash, set at the end of the `row_writer` block; None if no row was added.
    """

    def __init__(
        self, path: Path, kind: type[Document] | type[Reject], stack: contextlib.ExitStack, metadata: Mapping[str, str]
    ) -> None:
        self._path, self._kind, self._stack, self._metadata = path, kind, stack, metadata
        self._rows: list[Any] = []
        self._size = 0
        self._parquet: Any = None
        self.written = 0
        self.output: Output | None = None

    def add(self, rows: Iterable[Document] | Iterable[Reject]) -> None:
        """Add rows; write a row group when enough text has been added."""
        for row in rows:
            self._rows.append(row)
            self._size += len(row.text) if isinstance(row, Document) else _REJECT_SIZE
            if self._size >= _ROW_GROUP:
                self.flush()

    def flush(self) -> None:
        """Write the added rows as a row group. The first row group creates the file."""
        import pyarrow as pa

        if not self._rows:
            return
        first = self._rows[0]
        schema = row_schema(self._kind, *_signals(first)) if isinstance(first, Document) else row_schema(self._kind)
        if self._parquet is None:
            path = self._stack.enter_context(atomic_path(self._path))
            self._parquet = _open_parquet(path, schema.with_metadata(self._metadata))
            self._stack.callback(self._parquet.close)
        columns = [pa.array([_cell(row, field.name) for row in self._rows], field.type) for field in schema]
        self._parquet.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        self.written += len(self._rows)
        self._rows, self._size = [], 0
        pa.default_memory_pool().release_unused()  # otherwise the pool grows during a long build


def _cell(row: Document | Reject, name: str) -> Any:
    value = getattr(row, name)
    return [{"key": key, "value": text} for key, text in value.items()] if name == "meta" else value


def _signals(row: Document) -> tuple[tuple[str, ...], tuple[str, ...]]:
    return tuple(row.signals), tuple(row.line_signals)


@contextlib.contextmanager
def row_writer(
    root: Path, path: str, kind: type[Document] | type[Reject], metadata: Mapping[str, str]
) -> Iterator[RowWriter]:
    """Write a file of rows that is committed at the end of the block. Without rows, no file is written.

    Args:
        root: the directory that the path of the output is relative to.
        path: path of the file below `root`.
        kind: type of the rows.
        metadata: metadata of the Parquet schema; see `schema_metadata`.
    """
    with contextlib.ExitStack() as stack:
        writer = RowWriter(root / path, kind, stack, metadata)
        yield writer
        writer.flush()
    if writer.written:
        writer.output = Output(path, writer.written, file_sha256(root / path))


def read_rows(
    folder: Path, file: Output, kind: type[Row], columns: Sequence[str] | None = None, *, fix: str = ""
) -> Iterator[Row]:
    """Verify the hash of a file and yield its rows, in bounded memory.

    Args:
        folder: directory of the corpus.
        file: the file, as named by a manifest or a receipt.
        kind: type of the rows.
        columns: columns to read; the others hold their defaults or "".
        fix: fix to show in the error about a damaged file; "" for how to build the corpus again.

    Raises:
        DamagedError: the file is missing or damaged.
        MachineError: it cannot be read.
    """
    with open_shard(folder / file.path, file.sha256, fix) as parquet:
        for batch in parquet.iter_batches(batch_size=_READ_ROWS, columns=_present(parquet, kind, columns)):
            yield from _rows(batch, kind, columns)


def read_rows_at(
    folder: Path, file: Output, kind: type[Row], numbers: Sequence[int], columns: Sequence[str] | None = None
) -> Iterator[Row]:
    """Verify the hash of a file and yield some of its rows, reading only the row groups that have them.

    Args:
        folder: directory of the corpus.
        file: the file, as named by the manifest.
        kind: type of the rows.
        numbers: numbers of the rows, from 0, ascending.
        columns: columns to read; the others hold their defaults or "".

    Raises:
        DamagedError: the file is missing or damaged.
        MachineError: it cannot be read.
    """
    with open_shard(folder / file.path, file.sha256) as parquet:
        begin = 0
        for group in range(parquet.num_row_groups):
            end = begin + parquet.metadata.row_group(group).num_rows
            if inside := [number - begin for number in numbers if begin <= number < end]:
                names = _present(parquet, kind, columns)
                yield from _rows(parquet.read_row_group(group, columns=names).take(inside), kind, columns)
            begin = end


def rebuild_fix(folder: Path) -> str:
    """Return the fix for a damaged file of a finished corpus."""
    verify = f"jprep corpus verify {shlex.quote(str(folder))}"
    return f"`{verify}` lists the damaged files; build the corpus again with --restart"


@contextlib.contextmanager
def open_shard(path: Path, sha256: str | None, fix: str = "") -> Iterator[Any]:
    """Open a Parquet file of a corpus as a `ParquetFile`; errors of reading it within the block are translated.

    Args:
        path: the file.
        sha256: its hash, which is verified first; damaged text can often still be decompressed. None skips this.
        fix: fix to show in the error about a damaged file; "" for how to build the corpus again.

    Raises:
        DamagedError: the file is missing, or has another hash.
        JprepError: the file cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    fix = fix or rebuild_fix(path.parents[1])
    if sha256 is not None:
        verify_file(path, sha256, fix)
    try:
        with pq.ParquetFile(path, pre_buffer=False) as parquet:  # the default keeps the whole file in memory
            yield parquet
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise JprepError(f"cannot read a shard: {error}", where=str(path), fix=fix) from error


def _present(parquet: Any, kind: type[Row], columns: Sequence[str] | None) -> list[str]:
    """Return the names of the columns to read."""
    present = parquet.schema_arrow.names
    return [name for name in kind.__struct_fields__ if name in present] if columns is None else list(columns)


def _rows(table: Any, kind: type[Row], columns: Sequence[str] | None) -> Iterator[Row]:
    """Yield the rows of a table or a record batch."""
    fields: tuple[str, ...] = kind.__struct_fields__
    absent = {name: "" for name in fields if name not in (*_NESTED, *(fields if columns is None else columns))}
    for row in table.to_pylist():
        if "meta" in row:
            row["meta"] = dict(map(_pair, row["meta"]))
        yield kind(**(absent | row))


def schema_metadata(name: str, fingerprint: str, licences: Mapping[str, str]) -> dict[str, str]:
    """Return the metadata stored in the Parquet schema of each file.

    Args:
        name: name of the recipe.
        fingerprint: fingerprint of the corpus.
        licences: licence of each source.
    """
    listed = msgspec.json.encode(licences).decode()
    return {"jprep.name": name, "jprep.fingerprint": fingerprint, "jprep.licences": listed}


def _pair(entry: dict[str, str] | tuple[str, str]) -> tuple[str, str]:
    """Return an entry of `meta`: a struct, or a tuple in format 1, where `meta` is a map."""
    return (entry["key"], entry["value"]) if isinstance(entry, dict) else entry


def _open_parquet(path: Path, schema: Any) -> Any:
    import pyarrow.parquet as pq

    # Texts are unique: dictionaries and statistics of them would only cost time.
    return pq.ParquetWriter(
        path,
        schema,
        compression="zstd",
        compression_level=3,
        use_dictionary=["source", "step", "reason"],
        write_statistics=False,
    )


def row_schema(
    kind: type[Document] | type[Reject], signals: Sequence[str] = (), line_signals: Sequence[str] = ()
) -> Any:
    """Return the Arrow schema of documents or rejects, without metadata.

    Args:
        kind: type of the rows.
        signals: columns of the signals; without any, there is no column `signals`.
        line_signals: columns of the signals of lines; without any, there is no column `line_signals`.
    """
    import pyarrow as pa

    texts = [name for name in kind.__struct_fields__ if name not in _NESTED]
    fields = [pa.field(name, pa.string()) for name in texts]
    if kind is Document:
        pair = pa.struct([("key", pa.string()), ("value", pa.string())])  # Hugging Face datasets has no maps
        fields.append(pa.field("meta", pa.list_(pair)))
    if signals:
        fields.append(pa.field("signals", pa.struct([(name, pa.float32()) for name in signals])))
    if line_signals:
        values = pa.list_(pa.float32())
        fields.append(pa.field("line_signals", pa.struct([(name, values) for name in line_signals])))
    return pa.schema(fields)
