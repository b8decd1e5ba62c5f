"""Count the ids that several documents share, by sorting hashes of the ids in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.dedup.hashes import HASHES, BucketStage, HashFileWriter, hash_begins
from jprep.corpus.document import Document
from jprep.corpus.store import read_rows
from jprep.engine.fingerprint import fingerprint
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.io.atomic import file_sha256, write_atomic
from jprep.io.verified_files import read_verified
from jprep.typed_json import decode_json

REPEATED = "repeated"


class RepeatedIds(msgspec.Struct, frozen=True):
    """Ids of one source that are not unique.

    Attributes:
        ids: number of ids that more than one document has.
        documents: number of documents with one of these ids.
        example: the most frequent id.
        times: number of documents with the most frequent id.
    """

    ids: int
    documents: int
    example: str
    times: int


class _BucketResult(msgspec.Struct, frozen=True):
    """Repeated ids of a source in one bucket; `part` and `row` are the position of the most frequent one."""

    source: int
    ids: int
    documents: int
    times: int
    part: int
    row: int


class HashIds(Stage):
    """Stage that hashes the ids of finished parts.

    Args:
        parts: the parts, each with the index of its source.
        folder: where to write, relative to the corpus, with a trailing slash.
    """

    name = "ids"
    title = "comparing ids"

    def __init__(self, parts: Sequence[tuple[int, Output]], folder: str) -> None:
        self._parts, self._folder = parts, folder

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: the parts."""
        return _fields([part for _, part in self._parts])

    def total(self) -> int:
        """Return the number of documents."""
        return sum(part.rows for _, part in self._parts)

    def tasks(self) -> Iterator[Task]:
        """Yield one task per part."""
        for number, (source, part) in enumerate(self._parts):
            yield Task(f"{number:06d}", (source, part), part.rows, part.sha256)

    def run(self, task: Task, root: Path) -> Result:
        """Hash the ids of one part."""
        source, part = task.payload
        hashes = HashFileWriter()
        for row, doc in enumerate(read_rows(root, part, Document, ["id"])):
            hashes.add_text(doc.id, row, source)
        output = hashes.commit(root, f"{self._folder}{HASHES}/{task.id}")
        return Result([output] if output else [])


class FindRepeatedIds(BucketStage):
    """Stage that compares the hashes written by `HashIds`, bucket by bucket.

    Args:
        hashes: outputs of `HashIds`, one per part. The caller verifies them, since every task reads a part of each.
        folder: where to write, relative to the corpus, with a trailing slash.
    """

    name = "repeated_ids"
    title = "comparing ids"

    def __init__(self, hashes: Sequence[Output], folder: str) -> None:
        super().__init__(hashes)
        self._hashes, self._folder = hashes, folder

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: the files of hashes."""
        return _fields(self._hashes)

    def run(self, task: Task, root: Path) -> Result:
        """Find the ids that occur more than once in one bucket."""
        found = list(_repeated(*self._buckets.records(task.payload, root)))
        if not found:
            return Result([])
        path = f"{self._folder}{REPEATED}/{task.id}"
        write_atomic(root / path, msgspec.json.encode(found))
        return Result([Output(path, len(found), file_sha256(root / path))])


def _fields(files: Sequence[Output]) -> dict[str, Any]:
    return {"files": fingerprint({"sha256": [file.sha256 for file in files]}), "hash": "xxh3_128"}


def _repeated(records: Any, parts: Any) -> Iterator[_BucketResult]:
    """Yield, per source, the number of repeated ids and the first position of the most frequent one."""
    import numpy as np

    order = np.lexsort((records["row"], parts, records["low"], records["high"]))
    records, parts = records[order], parts[order]
    starts = hash_begins(records).nonzero()[0]
    sizes = np.diff(starts, append=len(records))
    starts, sizes = starts[sizes > 1], sizes[sizes > 1]
    sources = records["line"][starts]
    for source in sorted(set(sources.tolist())):
        ours = sources == source
        times = int(sizes[ours].max())
        most = starts[ours & (sizes == times)]
        position = min(zip(parts[most].tolist(), records["row"][most].tolist(), strict=True))
        yield _BucketResult(source, int(ours.sum()), int(sizes[ours].sum()), times, *position)


def repeated_ids(root: Path, parts: Sequence[Output], receipts: Sequence[Receipt]) -> dict[int, RepeatedIds]:
    """Return the repeated ids, by the index of the source.

    Args:
        root: directory of the corpus.
        parts: the parts whose ids were hashed, in order.
        receipts: receipts of the stage `FindRepeatedIds`.
    """
    files = [read_verified(root / output.path, output.sha256) for receipt in receipts for output in receipt.outputs]
    found = [each for file in files for each in decode_json(file, list[_BucketResult])]
    return {
        source: _summed(root, parts, [each for each in found if each.source == source])
        for source in sorted({each.source for each in found})
    }


def _summed(root: Path, parts: Sequence[Output], found: Sequence[_BucketResult]) -> RepeatedIds:
    most = max(found, key=lambda each: (each.times, -each.part, -each.row))
    rows = read_rows(root, parts[most.part], Document, ["id"])
    example = next(doc.id for row, doc in enumerate(rows) if row == most.row)
    ids, documents = sum(each.ids for each in found), sum(each.documents for each in found)
    return RepeatedIds(ids, documents, example, most.times)
