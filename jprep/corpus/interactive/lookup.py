"""An index of the ids and titles of a finished corpus: a lookup reads some blocks of it instead of all shards.

The file has hashes of keys with the places of their rows, in segments that were sorted in memory, and after them a
table with the first hash and the checksum of each block. Hashes may collide: whoever uses a place compares the row.
"""

from __future__ import annotations

import logging
import struct
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import msgspec
import numpy as np
import xxhash

from jprep.batching import batches_of
from jprep.corpus.store import Manifest, open_shard
from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.fingerprint import fingerprint
from jprep.engine.output_kinds import INDEX
from jprep.engine.stage import Output
from jprep.errors import DamagedError, MachineError
from jprep.io.atomic import atomic_path
from jprep.io.os_errors import translate_read_errors

_RECORD = np.dtype([("key", "<u8"), ("part", "<u4"), ("row", "<u4")])
_SEGMENT = 1 << 22  # records sorted at a time: 64 MiB
_BLOCK = 1 << 14  # records of a block: 256 KiB
_ROWS = 1 << 14  # rows read at a time
_LENGTH = struct.Struct("<Q")
_log = logging.getLogger(__name__)


class _Segment(msgspec.Struct, frozen=True):
    """Sorted records.

    Attributes:
        start: offset of its first byte.
        stop: offset of the byte after it.
        firsts: the first hash of each block.
        digests: the checksum of each block.
    """

    start: int
    stop: int
    firsts: list[int]
    digests: list[str]


class _Table(msgspec.Struct, frozen=True):
    """The table after the records; `parts` is a hash of the files that are indexed."""

    parts: str
    segments: list[_Segment]


def find_rows(folder: Path, manifest: Manifest, query: str) -> dict[Output, list[int]] | None:
    """Return the rows that may have an id, page number or title, in order, by their file.

    Args:
        folder: directory of the corpus.
        manifest: its manifest.
        query: what is looked for; not empty.

    Returns:
        None if there is no index, and none can be written.

    Raises:
        DamagedError: a shard is missing or damaged, and there is no index yet.
    """
    files = [*manifest.parts, *manifest.reject_parts]
    identity = fingerprint({"sha256": [file.sha256 for file in files]})
    keys = {_hash(key) for text in (query, query.lower()) for key in (text, _own_part(text))}
    try:
        places = _find(folder / INDEX, identity, keys)
        if places is None:
            _write(folder, files, identity)
            places = _find(folder / INDEX, identity, keys)
    except MachineError as error:
        _log.info("no index: %s", error)
        return None
    if places is None:
        return None
    rows: dict[Output, list[int]] = {}
    for part, row in sorted(places):
        rows.setdefault(files[part], []).append(row)
    return rows


def _own_part(text: str) -> str:
    """Return what follows the source in an id, or the whole id: one key serves both searches."""
    return text.partition(":")[2] or text


def _hash(key: str) -> int:
    return xxhash.xxh3_64_intdigest(key.encode())


def _write(folder: Path, files: Sequence[Output], identity: str) -> None:
    with atomic_path(folder / INDEX) as temporary, temporary.open("wb") as file:
        segments = [_write_segment(file, records) for records in _segments(folder, files)]
        table = encode_checksummed(_Table(identity, segments))
        file.write(table + _LENGTH.pack(len(table)))


def _segments(folder: Path, files: Sequence[Output]) -> Iterator[Any]:
    """Return the records of all files, a bounded number at a time."""
    records = (each for part, file in enumerate(files) for each in _records(folder, file, part))
    return map(np.concatenate, batches_of(records, _SEGMENT, len))


def _records(folder: Path, file: Output, part: int) -> Iterator[Any]:
    row = 0
    with open_shard(folder / file.path, file.sha256) as parquet:
        for batch in parquet.iter_batches(batch_size=_ROWS, columns=["id", "title"]):
            ids, titles = (batch[name].to_pylist() for name in ("id", "title"))
            yield _records_of([_hash(_own_part(each)) for each in ids], range(row, row + len(ids)), part)
            titled = [number for number, title in enumerate(titles) if title and title != _own_part(ids[number])]
            yield _records_of([_hash(titles[number]) for number in titled], [row + each for each in titled], part)
            row += len(ids)


def _records_of(keys: Sequence[int], rows: Sequence[int], part: int) -> Any:
    records = np.empty(len(keys), _RECORD)
    records["key"], records["part"], records["row"] = np.array(keys, "<u8"), part, np.array(rows, "<u4")
    return records


def _write_segment(file: BinaryIO, records: Any) -> _Segment:
    records = np.sort(records, order=["key", "part", "row"])
    segment = _Segment(start := file.tell(), start + records.nbytes, [], [])
    for first in range(0, len(records), _BLOCK):
        data = records[first : first + _BLOCK].tobytes()
        segment.firsts.append(int(records["key"][first]))
        segment.digests.append(xxhash.xxh3_128_hexdigest(data))
        file.write(data)
    return segment


def _find(path: Path, identity: str, keys: set[int]) -> set[tuple[int, int]] | None:
    """Return the places of some keys; None if there is no index of these files, or if it is damaged."""
    if not path.is_file():
        return None
    with translate_read_errors(str(path)), path.open("rb") as file:
        try:
            table = _read_table(file)
            if table.parts != identity:
                return None
            wanted = np.array(sorted(keys), "<u8")
            blocks = (_read_block(file, *place) for key in keys for place in _places(table, key))
            found = np.concatenate([np.empty(0, _RECORD), *(block[np.isin(block["key"], wanted)] for block in blocks)])
        except (ValueError, struct.error, DamagedError) as error:
            _log.warning("%s is damaged (%s): it is written again", path, error)
            return None
    return {(part, row) for _, part, row in found.tolist()}


def _read_table(file: BinaryIO) -> _Table:
    """Return the table after the records."""
    end = file.seek(0, 2) - _LENGTH.size
    file.seek(max(end, 0))
    start = end - _LENGTH.unpack(file.read())[0]
    if start < 0:
        raise ValueError("it is truncated")
    file.seek(start)
    return decode_checksummed(file.read(end - start), _Table)


def _places(table: _Table, key: int) -> Iterator[tuple[int, int, str]]:
    """Yield the offset, the size and the checksum of each block that may have a key."""
    size = _BLOCK * _RECORD.itemsize
    for segment in table.segments:
        number = max(0, bisect_left(segment.firsts, key) - 1)
        while number < len(segment.firsts) and segment.firsts[number] <= key:
            start = segment.start + number * size
            yield start, min(size, segment.stop - start), segment.digests[number]
            number += 1


def _read_block(file: BinaryIO, start: int, size: int, digest: str) -> Any:
    file.seek(start)
    data = file.read(size)
    if xxhash.xxh3_128_hexdigest(data) != digest:
        raise DamagedError("a block was changed or damaged", where=file.name, fix="it is written again")
    return np.frombuffer(data, _RECORD)
