"""Export documents, or equal cuts of them, as Examples with a single feature `input_ids`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

from jprep.dataset.exports.base import ExportedSplit, ExportJob, write_shards
from jprep.dataset.exports.row_reader import Block, RowReader
from jprep.dataset.exports.tfrecord.wire import frame_records, varint_size, varints
from jprep.io.atomic import atomic_path
from jprep.io.wire.protobuf import encode_varint

SHARD_MB = 100

_FIELDS = (b"\x0a", b"\x1a", b"\x0a\x09input_ids\x12", b"\x0a", b"\x0a")
"""The bytes before each length, from the innermost message outwards.

They belong to `Int64List.value`, `Feature.int64_list`, a map key and its value, `Features.feature`, `Example.features`.
"""


def write(job: ExportJob) -> tuple[list[ExportedSplit], list[Path]]:
    """Write `<split>-00000-of-00007.tfrecord` and so on; see `ExportFormat.write`."""
    longest = varint_size(job.dataset.vocab_size - 1)  # bytes of the largest id: shards are no larger than requested
    tokens = max(1, (job.options.shard_mb or SHARD_MB) * 1_000_000 // longest)
    return write_shards(job, "{split}-{number:05d}-of-{count:05d}.tfrecord", tokens, _write_shard), []


def _write_shard(job: ExportJob, rows: RowReader, first: int, last: int, path: Path) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        for block in rows.blocks(first, last):
            file.write(frame_records(list(examples(block))))
            job.done(block)


def examples(block: Block) -> Iterator[bytes]:
    """Yield each row as a serialised Example."""
    data, edges = varints(block.tokens, block.edges)
    return (_prefix(stop - start) + data[start:stop] for start, stop in pairwise(edges.tolist()))


@lru_cache(1 << 12)
def _prefix(size: int) -> bytes:
    """Return the bytes before the numbers of an Example."""
    head = b""
    for field in _FIELDS:
        head = field + encode_varint(len(head) + size) + head
    return head
