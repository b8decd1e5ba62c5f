"""A finished corpus of given documents and rejects, written without a build."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jprep.corpus.document import Document, Reject
from jprep.corpus.store import FORMAT, Manifest, row_writer, schema_metadata, write_manifest
from jprep.engine.fingerprint import fingerprint
from jprep.engine.stage import Output


def write_corpus(
    folder: Path,
    shards: Sequence[Sequence[Document]],
    rejected: Sequence[Reject] = (),
    *,
    group: int = 1000,
    **fields: Any,
) -> Path:
    """Write a corpus with a file for each shard, row groups of so many rows, and other fields of the manifest."""
    made_from: dict[str, Any] = {"documents": {"segmenter": {"name": "none"}}}
    metadata = schema_metadata("written", fingerprint(made_from), {"own": "CC0"})
    parts = [
        _write(folder, f"documents/{number:04}.parquet", Document, docs, metadata, group)
        for number, docs in enumerate(shards)
    ]
    dropped = [_write(folder, "rejects/0.rejects", Reject, rejected, metadata, group)] if rejected else []
    values: dict[str, Any] = {
        "jprep": "0",
        "format": FORMAT,
        "name": "written",
        "signature": "corpus:written",
        "fingerprint": fingerprint(made_from),
        "made_from": made_from,
        "sources": [{"name": "own", "licence": "CC0"}],
        "totals": {"documents": sum(map(len, shards))},
        "counts": {},
        "rejects": {},
        "parts": [part for part in parts if part],
        "reject_parts": dropped,
    }
    write_manifest(folder, Manifest(**values | fields))
    return folder


def _write(
    folder: Path, path: str, kind: Any, rows: Sequence[Any], metadata: dict[str, str], group: int
) -> Output | None:
    with row_writer(folder, path, kind, metadata) as writer:
        for start in range(0, len(rows), group):
            writer.add(rows[start : start + group])
            writer.flush()
    return writer.output
