"""Read a column of a corpus's Parquet shards in batches of bounded size."""

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

_AT_ONCE = 8 << 20  # bytes of a column per batch: larger batches leave fewer rows to add up


class CorpusShard(msgspec.Struct, frozen=True):
    """A Parquet file of documents.

    Attributes:
        path: path relative to the corpus directory.
        sha256: SHA-256 of the file.
        size: uncompressed bytes of the column that is read.
    """

    path: str
    sha256: str
    size: int


def shard_of(folder: Path, file: Output, column: str) -> CorpusShard:
    """Describe a file of a corpus; its size is read from the Parquet footer.

    Raises:
        JprepError: the file is missing or damaged.
    """
    try:
        with _opened(folder / file.path) as parquet:
            return CorpusShard(file.path, file.sha256, sum(_sizes(parquet, column)))
    except Exception:  # a damaged footer can raise anything
        verify_file(folder / file.path, file.sha256, REBUILD)
        raise


def read_batches(folder: Path, shard: CorpusShard, columns: list[str]) -> Iterator[Any]:
    """Yield record batches of consecutive row groups. The size of the first column decides how many form a batch.

    Raises:
        DamagedError: the file differs from the corpus's manifest: damaged text can often still be decompressed.
        JprepError: the file cannot be read.
    """
    with _opened(verify_file(folder / shard.path, shard.sha256, REBUILD)) as parquet:
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
