"""Read columns of a corpus's shards as Arrow record batches, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.store import open_shard, rebuild_fix
from jprep.engine.stage import Output
from jprep.io.verified_files import verify_file

_BATCH_BYTES = 8 << 20  # decompressed bytes of a column per batch


class CorpusShard(msgspec.Struct, frozen=True):
    """A shard of documents.

    Attributes:
        path: path relative to the corpus.
        sha256: hash of the file.
        size: decompressed size of the column to read, in bytes.
    """

    path: str
    sha256: str
    size: int


def shard_of(folder: Path, file: Output, column: str) -> CorpusShard:
    """Return a shard of a corpus, with the size of a column from the file's footer.

    Args:
        folder: directory of the corpus.
        file: the shard, as named by the manifest.
        column: the column to read.

    Raises:
        JprepError: the file is missing or damaged.
    """
    try:
        with open_shard(folder / file.path, None) as parquet:
            return CorpusShard(file.path, file.sha256, sum(_sizes(parquet, column)))
    except Exception:  # a damaged footer can raise anything
        verify_file(folder / file.path, file.sha256, rebuild_fix(folder))
        raise


def read_batches(folder: Path, part: CorpusShard, columns: list[str]) -> Iterator[Any]:
    """Verify a shard and yield record batches of consecutive row groups.

    Args:
        folder: directory of the corpus.
        part: the shard.
        columns: columns to read; the size of the first one determines the size of the batches.

    Raises:
        DamagedError: the hash of the file differs from the manifest. Damaged text can often still be decompressed.
        JprepError: the file cannot be read.
    """
    with open_shard(folder / part.path, part.sha256) as parquet:
        groups, size = list[int](), 0
        sizes = _sizes(parquet, columns[0])
        for group, group_size in enumerate(sizes):
            groups, size = [*groups, group], size + group_size
            if size >= _BATCH_BYTES or group == len(sizes) - 1:
                table = parquet.read_row_groups(groups, columns=columns, use_threads=False)
                yield from table.combine_chunks().to_batches()
                groups, size = [], 0


def _sizes(parquet: Any, column: str) -> list[int]:
    groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
    names = [parquet.schema.column(i).path for i in range(len(parquet.schema))]
    return [group.column(names.index(column)).total_uncompressed_size for group in groups]
