"""Hashes of documents, lines and ids, sorted, one file a task: what is compared across a whole corpus."""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import xxhash

from jprep.corpus.document import Document
from jprep.engine.stage import Output, Stage, Task
from jprep.io.atomic import file_sha256, write_atomic

HASHES = "hashes"
WHOLE = -1
"""The line number that stands for a whole document."""

_PLACE = struct.Struct("<Ii")
_BUCKET = 2_000_000  # records sorted at a time, some 200 MB


def record_type() -> Any:
    """The numpy type of one record: a 128-bit hash in two halves, the document's row, the line's number or WHOLE."""
    import numpy as np

    return np.dtype([("high", ">u8"), ("low", ">u8"), ("row", "<u4"), ("line", "<i4")])


class HashFile:
    """Collects the hashes of one task and writes them sorted."""

    def __init__(self) -> None:
        self._records = bytearray()

    def note(self, text: str, row: int, line: int) -> None:
        """Note a text's hash and its place."""
        self._records += xxhash.xxh3_128_digest(text.encode())
        self._records += _PLACE.pack(row, line)

    def commit(self, root: Path, path: str) -> Output | None:
        """Write the records, sorted by hash and then by place."""
        import numpy as np

        if not self._records:
            return None
        records = np.frombuffer(self._records, record_type())
        order = np.lexsort((records["line"], records["row"], records["low"], records["high"]))
        # Not numpy's `tofile`: on a full disk it writes less, and says nothing.
        write_atomic(root / path, records[order].tobytes())
        return Output(path, len(records), file_sha256(root / path))


class HashWriter(HashFile):
    """Notes the hashes of one task's documents.

    Args:
        documents: whether whole documents are compared.
        line_min_chars: lines of at least this many characters are compared; 0 compares none.
    """

    def __init__(self, documents: bool, line_min_chars: int) -> None:
        super().__init__()
        self._documents, self._line_min_chars = documents, line_min_chars
        self._rows = 0

    def add(self, doc: Document) -> None:
        """Note a document; they come in the order of their rows."""
        if self._documents:
            self.note(doc.text, self._rows, WHOLE)
        if self._line_min_chars:
            for number, line in enumerate(doc.text.split("\n")):
                if len(line) >= self._line_min_chars:
                    self.note(line, self._rows, number)
        self._rows += 1


class Buckets:
    """Many files of hashes, cut by the hashes' first bits into buckets of bounded size.

    Args:
        files: of hashes, in the corpus's order, or None for a shard without any.
    """

    def __init__(self, files: Sequence[Output | None]) -> None:
        self._files = files
        self._bits = max(0, (sum(file.rows for file in files if file) // _BUCKET).bit_length())

    def __len__(self) -> int:
        return int(2**self._bits)

    def records(self, bucket: int, root: Path) -> tuple[Any, Any]:
        """All records of a bucket, and for each the number of its file."""
        import numpy as np

        parts, shards = [np.empty(0, record_type())], [np.empty(0, "<u4")]
        width = 64 - self._bits
        for number, output in enumerate(self._files):
            if output:
                records = mapped(root / output.path, record_type())
                parts.append(between(records, "high", bucket << width, bucket + 1 << width))
                shards.append(np.full(len(parts[-1]), number, "<u4"))
        return np.concatenate(parts), np.concatenate(shards)


def mapped(path: Path, kind: Any) -> Any:
    """A file of records, memory-mapped."""
    import numpy as np

    return np.memmap(path, kind, "r")


def between(records: Any, field: str, low: int, high: int) -> Any:
    """The stretch of records, sorted by that field, whose value is at least `low` and below `high`: a copy."""

    def value(index: int) -> int:
        return int(records[index][field])

    # `bisect` looks at some twenty records; numpy's own search would first copy the whole column out of the file.
    start = bisect_left(range(len(records)), low, key=value)
    end = bisect_left(range(len(records)), high, lo=start, key=value)
    return records[start:end].copy()


class BucketStage(Stage):
    """A stage with one task for each bucket of hashes.

    Args:
        hashes: files of hashes, or None for a shard without any. The caller verifies them: every task reads a part of
            each.
    """

    def __init__(self, hashes: Sequence[Output | None]) -> None:
        self._buckets = Buckets(hashes)

    def total(self) -> int:
        """The number of buckets."""
        return len(self._buckets)

    def tasks(self) -> Iterator[Task]:
        """One task a bucket."""
        for bucket in range(len(self._buckets)):
            yield Task(f"{bucket:06d}", bucket, weight=1)
