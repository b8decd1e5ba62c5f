"""Reads the marked text of a corpus's files of documents, a bounded stretch at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from jprep.corpus.store import REBUILD
from jprep.engine.stage import Output
from jprep.errors import JprepError
from jprep.io.verified_files import verify_file

_AT_ONCE = 8 << 20  # bytes of a column that are looked at in one go: the more, the fewer rows to add up


class CorpusShard(msgspec.Struct, frozen=True):
    """A file of documents.

    Attributes:
        path: in the corpus.
        sha256: of its bytes.
        size: bytes of the column that is counted, decompressed.
    """

    path: str
    sha256: str
    size: int


def shard_of(folder: Path, file: Output, column: str) -> CorpusShard:
    """A corpus's file as a part, its size taken from its footer.

    Raises:
        JprepError: it is missing or damaged.
    """
    try:
        with _opened(folder / file.path) as parquet:
            return CorpusShard(file.path, file.sha256, sum(_sizes(parquet, column)))
    except Exception:  # a damaged footer can raise anything
        verify_file(folder / file.path, file.sha256, REBUILD)
        raise


def read_batches(folder: Path, part: CorpusShard, columns: list[str]) -> Iterator[Any]:
    """Record batches of neighbouring row groups; the first column says how many make one.

    Raises:
        DamagedError: the file is not what the corpus's manifest says: damaged text can often still be decompressed.
        JprepError: it cannot be read.
    """
    with _opened(verify_file(folder / part.path, part.sha256, REBUILD)) as parquet:
        held, size = list[int](), 0
        sizes = _sizes(parquet, columns[0])
        for group, more in enumerate(sizes):
            held, size = [*held, group], size + more
            if size >= _AT_ONCE or group == len(sizes) - 1:
                table = parquet.read_row_groups(held, columns=columns, use_threads=False)
                yield from table.combine_chunks().to_batches()
                held, size = [], 0


def _sizes(parquet: Any, column: str) -> list[int]:
    groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
    names = [parquet.schema.column(i).path for i in range(len(parquet.schema))]
    return [group.column(names.index(column)).total_uncompressed_size for group in groups]


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        with pq.ParquetFile(path, pre_buffer=False) as parquet:
            yield parquet
    except (OSError, pa.ArrowException) as error:
        raise JprepError(f"a shard cannot be read: {error}", where=str(path), fix=REBUILD) from error
