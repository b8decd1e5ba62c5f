"""The bytes of TFRecord files of `tf.train.Example`, without TensorFlow.

A record is its length (u64), the length's checksum, its bytes and their checksum (u32, masked CRC-32C), little-endian.
The bytes are a Protocol Buffers message: a map from the names of features to packed lists.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.dataset.exports.row_reader import Offsets
from jprep.io.wire.crc32c import crc32c, mask_checksums
from jprep.io.wire.protobuf import data as message

_VALUES, _FLOAT_LIST, _INT64_LIST = 1, 2, 3  # numbers of fields: in both lists, and in Feature
_KEY, _VALUE, _ENTRY, _FEATURES = 1, 2, 1, 1


def examples(features: Mapping[str, npt.NDArray[Any]]) -> Iterator[bytes]:
    """Yield each row as a serialised Example.

    Args:
        features: name → values of all rows, (rows, values): floats become a FloatList, integers an Int64List.
    """
    columns = [_entries(name, values) for name, values in features.items()]
    return (message(_FEATURES, b"".join(row)) for row in zip(*columns, strict=True))


def _entries(name: str, values: npt.NDArray[Any]) -> Iterator[bytes]:
    """Yield the map entry of a feature for each row."""
    rows, width = values.shape
    edges = np.arange(rows + 1) * width
    if values.dtype.kind == "f":
        kind, packed, edges = _FLOAT_LIST, np.ascontiguousarray(values, "<f4").tobytes(), edges * 4
    else:
        kind, (packed, edges) = _INT64_LIST, varints(values.reshape(-1), edges)
    key = message(_KEY, name.encode())
    for start, stop in pairwise(edges.tolist()):
        feature = message(kind, message(_VALUES, packed[start:stop]))
        yield message(_ENTRY, key + message(_VALUE, feature))


def varints(tokens: npt.NDArray[Any], edges: Offsets) -> tuple[bytes, Offsets]:
    """Return integers as base-128 varints, and the offset of each row in them; negative ones take 64 bits.

    Args:
        tokens: the integers.
        edges: offset of each row in `tokens`, and the end of the last one.
    """
    if tokens.min(initial=0) < 0:
        tokens = tokens.astype(np.int64).view(np.uint64)
    width = varint_size(int(tokens.max(initial=0)))
    digits, kept = np.empty((len(tokens), width), np.uint8), np.ones((len(tokens), width), np.bool_)
    sizes = np.ones(len(tokens), np.int64)
    for digit in range(width):
        rest = tokens >> tokens.dtype.type(7 * digit)
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


def varint_size(number: int) -> int:
    """Return the bytes of a number in base 128."""
    return max(1, -(-number.bit_length() // 7))
