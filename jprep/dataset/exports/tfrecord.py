"""Export as TFRecord shards of `tf.train.Example`, without TensorFlow.

A record is its length (u64), the length's checksum, its bytes and their checksum (u32, masked CRC-32C), little-endian.
The bytes are a Protocol Buffers message: an Example with a single feature `input_ids`, a packed Int64List.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import numpy as np

from jprep.dataset.exports.base import ExportedSplit, ExportFormat, ExportJob, write_shards
from jprep.dataset.exports.row_reader import Block, Offsets, RowReader, Tokens
from jprep.io.atomic import atomic_path
from jprep.io.crc32c import crc32c, mask_checksums
from jprep.io.protobuf import encode_varint

SHARD_MB = 100

_FIELDS = (b"\x0a", b"\x1a", b"\x0a\x09input_ids\x12", b"\x0a", b"\x0a")
"""The bytes before each length, from the innermost message outwards.

They belong to `Int64List.value`, `Feature.int64_list`, a map key and its value, `Features.feature`, `Example.features`.
"""


def write(job: ExportJob) -> tuple[list[ExportedSplit], list[Path]]:
    """Write `<split>-00000-of-00007.tfrecord` and so on; see `ExportFormat.write`."""
    longest = _size(job.dataset.vocab_size - 1)  # bytes of the largest id: shards are no larger than requested
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


def varints(tokens: Tokens, edges: Offsets) -> tuple[bytes, Offsets]:
    """Return tokens as base-128 varints, and the offset of each row in them.

    Args:
        tokens: ids, none negative.
        edges: offset of each row in `tokens`, and the end of the last one.
    """
    width = _size(int(tokens.max(initial=0)))
    digits, kept = np.empty((len(tokens), width), np.uint8), np.ones((len(tokens), width), np.bool_)
    sizes = np.ones(len(tokens), np.int64)
    for digit in range(width):
        rest = tokens >> (7 * digit)
        more = rest > 0x7F
        digits[:, digit] = (rest & 0x7F).astype(np.uint8) | more.view(np.uint8) << 7
        if digit + 1 < width:
            kept[:, digit + 1] = more
            sizes += more
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return np.compress(kept.ravel(), digits.ravel()).tobytes(), ends[edges]


def frame_records(records: list[bytes]) -> bytes:
    """Return records with lengths and checksums, concatenated."""
    lengths = np.array([len(record) for record in records], "<u8")
    heads = lengths.tobytes()
    head_sums = mask_checksums(crc32c(heads, np.arange(len(records) + 1) * 8)).astype("<u4").tobytes()
    sums = mask_checksums(crc32c(b"".join(records), np.concatenate(([0], np.cumsum(lengths))))).astype("<u4").tobytes()
    parts = []
    for number, record in enumerate(records):
        here = slice(4 * number, 4 * number + 4)
        parts += [heads[2 * here.start : 2 * here.stop], head_sums[here], record, sums[here]]
    return b"".join(parts)


def _size(number: int) -> int:
    """Return the bytes of a number in base 128."""
    return max(1, -(-number.bit_length() // 7))


FORM = ExportFormat(write, ("length", "shard_mb"))
