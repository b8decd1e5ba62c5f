"""Read TFRecord shards of `tf.train.Example` from paths and URLs, without TensorFlow: the inverse of `wire`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.errors import ConfigError, InputError
from jprep.io.remote import is_url, open_filesystem, open_object, retry_remote
from jprep.io.wire.crc32c import crc32c, mask_checksums

Features = dict[str, npt.NDArray[Any]]
"""Name of a feature → its values."""

_ROWS_IN_NAME = re.compile(r"-of-\d+-(\d+)\.tfrecord$")
_HEAD, _TAIL = 12, 4  # bytes before and after a record
_LARGEST = 1 << 30  # bytes of a record; more is a damaged length
_FLOAT_LIST = 2


class Shard(NamedTuple):
    """A file of records.

    Attributes:
        place: path or URL.
        rows: number of records.
    """

    place: str
    rows: int


def find_shards(patterns: Sequence[str]) -> list[Shard]:
    """Return the shards of some paths or URLs, which may contain `*`, sorted by place.

    The number of rows is in the names that `jprep dataset export` writes; other shards are read to count them.

    Raises:
        ConfigError: a pattern matches nothing, no shard has a row, or a URL cannot be read.
        InputError: a shard is damaged.
    """
    places = sorted({place for pattern in patterns for place in _matching(pattern)})
    shards = [Shard(place, _count(place)) for place in places]
    if not any(shard.rows for shard in shards):
        raise ConfigError("these TFRecord files have no rows", where=", ".join(patterns), fix="export the rows again")
    return shards


def read_rows(shards: Sequence[Shard], first: int = 0) -> Iterator[Features]:
    """Yield the rows of shards from a row on, and then all of them again and again.

    Args:
        shards: the shards.
        first: number of the row to begin with; numbers beyond the last row continue from the first.

    Raises:
        InputError: a shard is damaged, or has another number of rows than its name says.
        MachineError: a URL cannot be read any more.
    """
    skipped = first % sum(shard.rows for shard in shards)
    while True:
        for shard in shards:
            if skipped >= shard.rows:
                skipped -= shard.rows
                continue
            count = 0
            for count, record in enumerate(read_records(shard.place), 1):
                if count > skipped:
                    yield parse_example(record)
            if count != shard.rows:
                raise _damaged(shard.place, f"it has {count:,} records instead of {shard.rows:,}")
            skipped = 0


def read_records(place: str) -> Iterator[bytes]:
    """Yield the records of a file, whose checksums are compared.

    Raises:
        InputError: the file is damaged or cut off.
    """
    with closing(_open(place)) as file:
        number = 0
        while head := file.read(_HEAD):
            length = int.from_bytes(head[:8], "little")
            if len(head) < _HEAD or not _matches(head[:8], head[8:]) or length > _LARGEST:
                raise _damaged(place, f"record {number} is damaged or cut off")
            record, tail = file.read(length), file.read(_TAIL)
            if len(record) < length or not _matches(record, tail):
                raise _damaged(place, f"record {number} is damaged or cut off")
            yield record
            number += 1


def parse_example(record: bytes) -> Features:
    """Return the features of a serialised `tf.train.Example`: int64 or float32 values; lists of bytes are left out."""
    found: Features = {}
    for _, features in _fields(record):
        for _, entry in _fields(features):
            parts = dict(_fields(entry))
            kind, values = next(iter(_fields(parts.get(2, b""))), (0, b""))
            packed = b"".join(value for _, value in _fields(values))
            if kind == _FLOAT_LIST:
                found[parts[1].decode()] = np.frombuffer(packed, "<f4")
            elif kind > _FLOAT_LIST:
                found[parts[1].decode()] = decode_varints(packed)
    return found


def decode_varints(data: bytes) -> npt.NDArray[np.int64]:
    """Return the integers of base-128 varints."""
    digits = np.frombuffer(data, np.uint8)
    if not len(digits):
        return np.zeros(0, np.int64)
    ends = np.flatnonzero(digits < 0x80) + 1
    starts = np.concatenate(([0], ends[:-1])).astype(np.int64)
    places = np.arange(len(digits)) - np.repeat(starts, ends - starts)
    shifted = (digits & 0x7F).astype(np.uint64) << (7 * places).astype(np.uint64)
    found: npt.NDArray[np.int64] = np.add.reduceat(shifted, starts).view(np.int64)
    return found


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbers and bytes of a message's fields, all of which have a length."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        length, at = _varint(message, at)
        yield tag >> 3, message[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while data[at] > 0x7F:
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
    return value | data[at] << shift, at + 1


def _matching(pattern: str) -> list[str]:
    """Return the paths or URLs that match a pattern."""
    if is_url(pattern):
        files, inside = open_filesystem(pattern)
        found = [files.unstrip_protocol(path) for path in retry_remote(lambda: files.glob(inside), pattern, "read")]
    else:
        path = Path(pattern)
        found = [str(each) for each in _listed(path.parent) if fnmatch(each.name, path.name)]
    if not found:
        fix = "give the shards' paths or URLs, e.g. rows/train-*.tfrecord"
        raise ConfigError("there are no such TFRecord files", where=pattern, fix=fix)
    return found


def _listed(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _count(place: str) -> int:
    named = _ROWS_IN_NAME.search(place)
    return int(named[1]) if named else sum(1 for _ in read_records(place))


def _open(place: str) -> Any:
    return open_object(place) if is_url(place) else Path(place).open("rb")


def _matches(data: bytes, checksum: bytes) -> bool:
    return mask_checksums(crc32c(data, [0, len(data)])).astype("<u4").tobytes() == checksum


def _damaged(place: str, what: str) -> InputError:
    return InputError(what, where=place, fix="export the rows again, or copy the file again")
