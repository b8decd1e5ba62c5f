"""How a corpus lies on disk: Parquet shards of documents, Parquet files of rejects, and `corpus.json`."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from jprep.corpus.document import Document, Reject
from jprep.engine import manifest
from jprep.engine.stage import Output
from jprep.errors import ConfigError, JprepError
from jprep.io.atomic import atomic_path, file_sha256
from jprep.io.verified_files import verify_file

FORMAT = 2
"""Of the files of a corpus; part of its fingerprint.

1: rejects had the suffix `.parquet` too, `meta` was a map, and no file had metadata. Such corpora are read as well.
"""

MANIFEST = "corpus.json"
TOTAL = "total."
"""Begins the names of counts that a manifest gives as its totals."""

DOCUMENTS, REJECTS = "documents", "rejects"
DOCUMENTS_SUFFIX, REJECTS_SUFFIX = ".parquet", ".rejects"
"""Both are Parquet, but `**/*.parquet` has to find documents only."""
_ROW_GROUP = 1_000_000  # characters: some 3 MB of UTF-8 in each of `text` and `words`
_REJECT_SIZE = 100  # characters in a row of rejects, about
_READ_ROWS = 256

REBUILD = "`jprep corpus verify` lists the damaged files; `jprep corpus build … --restart` builds the corpus again"
"""The fix for a damaged file of a finished corpus."""

Row = TypeVar("Row", Document, Reject)


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`corpus.json`: what a corpus is made of, and how.

    Attributes:
        jprep: the version that wrote it.
        format: of the files, see `FORMAT`.
        name: the recipe's name.
        signature: one line to cite.
        fingerprint: hash of `made_from`.
        made_from: each stage's fingerprint fields: inputs with size and hash, steps with version, config and
            provenance, libraries.
        sources: name, licence, homepage, files with size and hash, of each source.
        totals: documents, paragraphs, sentences, words, characters and bytes of `text`.
        counts: all that was counted, by dotted name.
        rejects: how many documents were rejected, by `step/reason`.
        parts: the shards of documents, in order.
        reject_parts: the files of rejects.
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

    @property
    def files(self) -> list[Output]:
        """All files of the corpus but the manifest."""
        return [*self.parts, *self.reject_parts]

    @property
    def segmenter(self) -> dict[str, Any] | None:
        """The description of what found the words; None where there are none."""
        return segmenter_of(self.made_from)


def segmenter_of(made_from: dict[str, Any]) -> dict[str, Any] | None:
    """See `Manifest.segmenter`; known before a corpus is built."""
    segmenter: dict[str, Any] = made_from.get("words", made_from["documents"])["segmenter"]
    return None if segmenter["name"] == "none" else segmenter


def read_manifest(folder: Path) -> Manifest:
    """Read a corpus's manifest.

    Raises:
        ConfigError: there is no finished corpus there, or one of a later jprep.
    """
    found = manifest.read_manifest(
        folder / MANIFEST, Manifest, what="corpus", command="jprep corpus build", work="build", again="builds"
    )
    if found.format > FORMAT:
        what = f"this corpus has format {found.format}; this jprep knows formats up to {FORMAT}"
        raise ConfigError(what, where=str(folder), fix=f"install jprep {found.jprep} or later")
    return found


def write_manifest(folder: Path, corpus: Manifest) -> None:
    """Commit the manifest: from now on the corpus is whole."""
    manifest.write_manifest(folder / MANIFEST, corpus)


class Writer:
    """Writes documents or rejects to one Parquet file, in row groups of bounded size; see `writing`."""

    def __init__(
        self, path: Path, kind: type[Document] | type[Reject], stack: contextlib.ExitStack, about: Mapping[str, str]
    ) -> None:
        self._path, self._kind, self._stack, self._about = path, kind, stack, about
        self._rows: list[Any] = []
        self._size = 0
        self._parquet: Any = None
        self.written = 0

    def add(self, rows: Iterable[Document] | Iterable[Reject]) -> None:
        """Add some rows."""
        for row in rows:
            self._rows.append(row)
            self._size += len(row.text) if isinstance(row, Document) else _REJECT_SIZE
            if self._size >= _ROW_GROUP:
                self.flush()

    def flush(self) -> None:
        """Write what was added as a row group; the first one makes the file."""
        import pyarrow as pa

        if not self._rows:
            return
        if self._parquet is None:
            self._parquet = _open_parquet(self._stack.enter_context(atomic_path(self._path)), self._kind, self._about)
            self._stack.callback(self._parquet.close)
        schema = _schema(self._kind)
        columns = [pa.array([_cell(row, field.name) for row in self._rows], field.type) for field in schema]
        self._parquet.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        self.written += len(self._rows)
        self._rows, self._size = [], 0
        pa.default_memory_pool().release_unused()  # or it keeps more the longer a run lasts


def _cell(row: Document | Reject, name: str) -> Any:
    value = getattr(row, name)
    return [{"key": key, "value": text} for key, text in value.items()] if isinstance(value, dict) else value


class Written(msgspec.Struct):
    """What `writing` gives: the writer, and after the block the output, or None where there were no rows."""

    add: Callable[[Iterable[Any]], None]
    output: Output | None = None


@contextlib.contextmanager
def row_writer(
    root: Path, path: str, kind: type[Document] | type[Reject], about: Mapping[str, str]
) -> Iterator[Written]:
    """Write a file that is committed at the end of the block; where nothing was added there is no file.

    Args:
        root: the folder that the output's path is relative to.
        path: the file's path below it.
        kind: what its rows are.
        about: metadata of the Parquet schema; see `metadata`.
    """
    with contextlib.ExitStack() as stack:
        writer = Writer(root / path, kind, stack, about)
        written = Written(writer.add)
        yield written
        writer.flush()
    if writer.written:
        written.output = Output(path, writer.written, file_sha256(root / path))


def read_rows(
    folder: Path, file: Output, kind: type[Row], columns: Sequence[str] | None = None, *, fix: str = REBUILD
) -> Iterator[Row]:
    """Read the rows of a file, a bounded batch at a time, once its content is seen to be what was written.

    Args:
        folder: the corpus's.
        file: the file, as a manifest or a receipt names it.
        kind: what its rows are.
        columns: read these only; the others hold their defaults or "".
        fix: what the error about a damaged file tells the user to do.

    Raises:
        DamagedError: the file is missing or damaged.
        MachineError: it cannot be read.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = verify_file(folder / file.path, file.sha256, fix)
    names = kind.__struct_fields__ if columns is None else columns
    absent = {name: "" for name in kind.__struct_fields__ if name not in names and name != "meta"}
    try:
        with pq.ParquetFile(path) as parquet:
            for batch in parquet.iter_batches(batch_size=_READ_ROWS, columns=list(names)):
                for row in batch.to_pylist():
                    if "meta" in row:
                        row["meta"] = dict(map(_pair, row["meta"]))
                    yield kind(**(absent | row))
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise JprepError(f"a shard cannot be read: {error}", where=str(path), fix=fix) from error


def metadata(name: str, fingerprint: str, licences: Mapping[str, str]) -> dict[str, str]:
    """Return what each file's Parquet schema says of its corpus.

    Args:
        name: the recipe's.
        fingerprint: the corpus's, known before it is built.
        licences: each source's.
    """
    listed = msgspec.json.encode(licences).decode()
    return {"jprep.name": name, "jprep.fingerprint": fingerprint, "jprep.licences": listed}


def _pair(entry: dict[str, str] | tuple[str, str]) -> tuple[str, str]:
    """A struct of `meta`; in format 1 an entry of a map, which comes as a tuple."""
    return (entry["key"], entry["value"]) if isinstance(entry, dict) else entry


def _open_parquet(path: Path, kind: type[Document] | type[Reject], about: Mapping[str, str]) -> Any:
    import pyarrow.parquet as pq

    # Text does not repeat, so dictionaries and statistics of it would only cost time.
    return pq.ParquetWriter(
        path,
        _schema(kind).with_metadata(about),
        compression="zstd",
        compression_level=3,
        use_dictionary=["source", "step", "reason"],
        write_statistics=False,
    )


def _schema(kind: type[Document] | type[Reject]) -> Any:
    import pyarrow as pa

    texts = [name for name in kind.__struct_fields__ if name != "meta"]
    fields = [pa.field(name, pa.string()) for name in texts]
    if kind is Document:
        pair = pa.struct([("key", pa.string()), ("value", pa.string())])  # `datasets` has no maps
        fields.append(pa.field("meta", pa.list_(pair)))
    return pa.schema(fields)
