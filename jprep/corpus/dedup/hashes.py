"""Sorted files of hashes of documents, lines and ids, to compare them across a corpus."""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import xxhash

from jprep.corpus.document import SENTENCE, Document
from jprep.engine.stage import Output, Stage, Task
from jprep.io.atomic import atomic_path, file_sha256

HASHES, BAND_KEYS, RANKS = "hashes", "band-keys", "lengths"
"""Folders of files: hashes of documents and lines; keys and lengths or scores of documents, for near-duplicates."""
WHOLE_DOCUMENT = -1
"""Line number of the hash of a whole document."""

_PLACE = struct.Struct("<Ii")
_BUCKET = 2_000_000  # records sorted at a time, about 200 MB


def record_type() -> Any:
    """Return the numpy type of a record: a 128-bit hash in two halves, a row, and a line number or WHOLE_DOCUMENT."""
    import numpy as np

    return np.dtype([("high", ">u8"), ("low", ">u8"), ("row", "<u4"), ("line", "<i4")])


class HashFileWriter:
    """Collects the hashes of one task and writes them, sorted, to one file."""

    def __init__(self) -> None:
        self._records = bytearray()

    def add_text(self, text: str, row: int, line: int) -> None:
        """Add the hash of a text with its position."""
        self.add_hash(xxhash.xxh3_128_digest(text.encode()), row, line)

    def add_hash(self, digest: bytes, row: int, line: int) -> None:
        """Add a 128-bit hash with a position."""
        self._records += digest
        self._records += _PLACE.pack(row, line)

    def add_hashes(self, high: Any, low: Any, rows: Sequence[int]) -> None:
        """Add several hashes of each document, as two halves (documents, hashes); the second index becomes the line."""
        import numpy as np

        records = np.empty(high.shape, record_type())
        records["high"], records["low"] = high, low
        records["row"] = np.array(rows)[:, None]
        records["line"] = np.arange(high.shape[1])
        self._records += records.tobytes()

    def flush(self) -> None:
        """Hash what is still to be hashed."""

    def commit(self, root: Path, path: str) -> Output | None:
        """Write the records, sorted by hash and position. Return None if there are none."""
        import numpy as np

        self.flush()
        if not self._records:
            return None
        records = np.frombuffer(self._records, record_type())
        order = np.lexsort((records["line"], records["row"], records["low"], records["high"]))
        return write_records(root, path, records[order])


def lines_of(doc: Document) -> list[str]:
    """Return the lines of a document."""
    return doc.text.split("\n")


def sentences_of(doc: Document) -> Iterator[str]:
    """Yield the sentences of a document without words, in the order in which `drop_sentences` counts them.

    White space after a sentence belongs to it, and does not count.
    """
    for paragraph in doc.words.split("\n"):
        yield from map(str.rstrip, paragraph.split(SENTENCE))


class DocumentHashWriter(HashFileWriter):
    """Collects the hashes of the documents of one task.

    Args:
        documents: whether to hash whole documents.
        min_chars: minimum length of the parts to hash, in characters; 0 hashes no parts.
        parts: returns the parts of a document; their numbers are the lines of the records.
    """

    def __init__(self, documents: bool, min_chars: int, parts: Callable[[Document], Iterable[str]] = lines_of) -> None:
        super().__init__()
        self._documents, self._min_chars, self._parts = documents, min_chars, parts
        self._rows = 0

    def add(self, doc: Document) -> None:
        """Add a document. Documents must be added in the order of their rows."""
        if self._documents:
            self.add_text(doc.text, self._rows, WHOLE_DOCUMENT)
        if self._min_chars:
            for number, part in enumerate(self._parts(doc)):
                if len(part) >= self._min_chars:
                    self.add_text(part, self._rows, number)
        self._rows += 1


class RankWriter:
    """Collects what decides which document of a cluster stays, in the order of the rows of one task.

    Args:
        score: the signal or the field of `meta` with the score of a document; "" for its length in characters.

    Attributes:
        without_score: number of documents that have no such number.
    """

    def __init__(self, score: str) -> None:
        self._score = score
        self._values: list[float] = []
        self.without_score = 0

    def add(self, doc: Document) -> None:
        """Add a document."""
        self._values.append(self._score_of(doc) if self._score else len(doc.text))

    def _score_of(self, doc: Document) -> float:
        try:
            score = float(doc.signals.get(self._score, doc.meta.get(self._score, "nan")))
        except ValueError:
            score = math.nan
        if math.isnan(score):
            self.without_score += 1
            return -math.inf
        return score

    def commit(self, root: Path, path: str) -> Output | None:
        """Write the lengths as 32-bit integers, or scores as 64-bit numbers. Return None if there are none."""
        import numpy as np

        return write_records(root, path, np.array(self._values, rank_type(self._score))) if self._values else None


def rank_type(score: str) -> str:
    """Return the numpy type of the values of `RankWriter`."""
    return "<f8" if score else "<u4"


class HashBuckets:
    """Many files of hashes, divided into buckets of bounded size by the first bits of the hashes.

    Args:
        files: files of hashes in the order of the corpus, or None for a shard without hashes.
    """

    def __init__(self, files: Sequence[Output | None]) -> None:
        self._files = files
        self._bits = max(0, (sum(file.rows for file in files if file) // _BUCKET).bit_length())

    def __len__(self) -> int:
        return int(2**self._bits)

    def records(self, bucket: int, root: Path) -> tuple[Any, Any]:
        """Return all records of a bucket, and the index of the file of each record."""
        import numpy as np

        parts, shards = [np.empty(0, record_type())], [np.empty(0, "<u4")]
        width = 64 - self._bits
        for number, output in enumerate(self._files):
            if output:
                records = map_records(root / output.path, record_type())
                parts.append(slice_between(records, "high", bucket << width, bucket + 1 << width))
                shards.append(np.full(len(parts[-1]), number, "<u4"))
        return np.concatenate(parts), np.concatenate(shards)


def write_records(root: Path, path: str, records: Any) -> Output:
    """Write an array to a file below `root`."""
    return write_chunks(root, path, [records])


def write_chunks(root: Path, path: str, chunks: Iterable[Any]) -> Output:
    """Write arrays, one after another, to a file below `root`."""
    rows = 0
    with atomic_path(root / path) as temporary, temporary.open("wb") as file:  # closed before it is synced
        for records in chunks:
            # Not numpy's `tofile`: on a full disk it writes a part without an error.
            file.write(records.tobytes())
            rows += len(records)
    return Output(path, rows, file_sha256(root / path))


def map_records(path: Path, kind: Any) -> Any:
    """Return a memory-mapped file of records."""
    import numpy as np

    return np.memmap(path, kind, "r")


def hash_begins(records: Any) -> Any:
    """Return for each record, sorted by hash, whether it is the first one with its hash."""
    import numpy as np

    begins = np.ones(len(records), bool)
    begins[1:] = (records["high"][1:] != records["high"][:-1]) | (records["low"][1:] != records["low"][:-1])
    return begins


def slice_between(records: Any, field: str, low: int, high: int) -> Any:
    """Return a copy of the records, sorted by `field`, whose value is in the range [`low`, `high`)."""

    def value(index: int) -> int:
        return int(records[index][field])

    # `bisect` reads about twenty records; `numpy.searchsorted` would first copy the whole column from the file.
    start = bisect_left(range(len(records)), low, key=value)
    end = bisect_left(range(len(records)), high, lo=start, key=value)
    return records[start:end].copy()


class BucketStage(Stage):
    """A stage with one task per bucket of hashes.

    Args:
        hashes: files of hashes, or None for a shard without hashes. The caller verifies them, since every task reads a
            part of each.
    """

    def __init__(self, hashes: Sequence[Output | None]) -> None:
        self._buckets = HashBuckets(hashes)

    def total(self) -> int:
        """Return the number of buckets."""
        return len(self._buckets)

    def tasks(self) -> Iterator[Task]:
        """Yield one task per bucket."""
        for bucket in range(len(self._buckets)):
            yield Task(f"{bucket:06d}", bucket, weight=1)
