"""Hashes of documents and lines, sorted, one file a task: what exact deduplication compares."""

from __future__ import annotations

import struct
from bisect import bisect_left
from pathlib import Path
from typing import Any

import xxhash

from jprep.corpus.document import Document
from jprep.engine.stage import Output
from jprep.io.atomic import sha256_of, write_atomic

HASHES = "hashes"
WHOLE = -1
"""The line number that stands for a whole document."""

_PLACE = struct.Struct("<Ii")


def record_type() -> Any:
    """The numpy type of one record: a 128-bit hash in two halves, the document's row, the line's number or WHOLE."""
    import numpy as np

    return np.dtype([("high", ">u8"), ("low", ">u8"), ("row", "<u4"), ("line", "<i4")])


class HashWriter:
    """Notes the hashes of one task's documents.

    Args:
        documents: whether whole documents are compared.
        line_min_chars: lines of at least this many characters are compared; 0 compares none.
    """

    def __init__(self, documents: bool, line_min_chars: int) -> None:
        self._documents, self._line_min_chars = documents, line_min_chars
        self._rows = 0
        self._records = bytearray()

    def add(self, doc: Document) -> None:
        """Note a document; they come in the order of their rows."""
        if self._documents:
            self._note(doc.text, WHOLE)
        if self._line_min_chars:
            for number, line in enumerate(doc.text.split("\n")):
                if len(line) >= self._line_min_chars:
                    self._note(line, number)
        self._rows += 1

    def _note(self, text: str, line: int) -> None:
        self._records += xxhash.xxh3_128_digest(text.encode())
        self._records += _PLACE.pack(self._rows, line)

    def commit(self, root: Path, path: str) -> Output | None:
        """Write the records, sorted by hash and then by place."""
        import numpy as np

        if not self._records:
            return None
        records = np.frombuffer(self._records, record_type())
        order = np.lexsort((records["line"], records["row"], records["low"], records["high"]))
        # Not numpy's `tofile`: on a full disk it writes less, and says nothing.
        write_atomic(root / path, records[order].tobytes())
        return Output(path, len(records), sha256_of(root / path))


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
