"""TFRecord shards of `tf.train.Example`, written without TensorFlow.

A record is its length (u64), the length's checksum, its bytes and their checksum (u32, masked CRC-32C), little-endian.
The bytes are Protocol Buffers': an Example with the one feature `input_ids`, an Int64List, packed.
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
"""What stands before each length, from the inside: `Int64List.value`, `Feature.int64_list`, a key and its value,
`Features.feature`, `Example.features`."""


def write(job: ExportJob) -> tuple[list[ExportedSplit], list[Path]]:
    """Write `<split>-00000-of-00007.tfrecord` and so on; see `ExportFormat.write`."""
    longest = _size(job.dataset.vocab_size - 1)  # bytes of the largest id: no shard is larger than was asked for
    tokens = max(1, (job.options.shard_mb or SHARD_MB) * 1_000_000 // longest)
    return write_shards(job, "{split}-{number:05d}-of-{count:05d}.tfrecord", tokens, _pack), []


def _pack(job: ExportJob, rows: RowReader, first: int, last: int, path: Path) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        for block in rows.blocks(first, last):
            file.write(framed(list(examples(block))))
            job.done(block)


def examples(block: Block) -> Iterator[bytes]:
    """Each row as a serialised Example."""
    data, edges = varints(block.tokens, block.edges)
    return (_head(stop - start) + data[start:stop] for start, stop in pairwise(edges.tolist()))


@lru_cache(1 << 12)
def _head(size: int) -> bytes:
    """What stands before the numbers of an Example."""
    head = b""
    for field in _FIELDS:
        head = field + encode_varint(len(head) + size) + head
    return head


def varints(tokens: Tokens, edges: Offsets) -> tuple[bytes, Offsets]:
    """Tokens as base-128 numbers, and where each row begins in them.

    Args:
        tokens: ids, none below 0.
        edges: where each row begins in `tokens`, and where the last one ends.
    """
    width = _size(int(tokens.max(initial=0)))
    spelt, kept = np.empty((len(tokens), width), np.uint8), np.ones((len(tokens), width), np.bool_)
    sizes = np.ones(len(tokens), np.int64)
    for place in range(width):
        rest = tokens >> (7 * place)
        more = rest > 0x7F
        spelt[:, place] = (rest & 0x7F).astype(np.uint8) | more.view(np.uint8) << 7
        if place + 1 < width:
            kept[:, place + 1] = more
            sizes += more
    ends = np.concatenate(([0], np.cumsum(sizes)))
    return np.compress(kept.ravel(), spelt.ravel()).tobytes(), ends[edges]


def framed(records: list[bytes]) -> bytes:
    """Records with their lengths and checksums, one after another."""
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
    """Bytes of a number, seven bits each."""
    return max(1, -(-number.bit_length() // 7))


FORM = ExportFormat(write, ("length", "shard_mb"))
