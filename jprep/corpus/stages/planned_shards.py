"""Shards as tasks carry them: without their bytes, which are cached on the disk or read again by the task.

Payloads of tasks are sent to other processes and machines, so they have no text.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import msgspec
import xxhash
import zstandard

from jprep.corpus.step import Reader, Shard
from jprep.engine.consumed import OutputChecks
from jprep.engine.output_kinds import STATE
from jprep.engine.stage import Output
from jprep.errors import DamagedError
from jprep.io.atomic import write_atomic
from jprep.io.inputs.content_check import input_changed
from jprep.io.inputs.limits import MAX_RATIO
from jprep.io.inputs.paths import size_of
from jprep.io.inputs.segments import open_segments
from jprep.io.os_errors import translate_read_errors
from jprep.io.safe_names import inner_path
from jprep.io.shared.network_files import wait_for_file
from jprep.io.verified_files import RUN_AGAIN

if TYPE_CHECKING:
    from io import RawIOBase

CACHE = f"{STATE}/inputs/data"
"""Directory of the cached bytes of shards, relative to the corpus."""

_GROUP_SHARDS = 1000
_GROUP = 1 << 20  # bytes: smaller shards share a task, so that many small inputs do not become many small shards
_LEVEL = 1  # of Zstandard: 400 MB/s, 40 % of the size
_log = logging.getLogger(__name__)


class Stored(msgspec.Struct, frozen=True):
    """Where the bytes of a shard are.

    Attributes:
        size: number of bytes.
        digest: XXH3 of the bytes, 128 bits in hexadecimal; "" if only their place is known.
        file: file with the compressed bytes, relative to the corpus; "" if they are read from the input.
        segment: stored offset at which a part of the input begins that decodes independently; -1 if the reader has to
            cut the input again from its start.
        skip: decompressed bytes from there to the shard.
        max_ratio: maximum expansion of the input.
        sha256: hash of the compressed bytes; "" if they are not cached.
    """

    size: int
    digest: str = ""
    file: str = ""
    segment: int = -1
    skip: int = 0
    max_ratio: float = MAX_RATIO
    sha256: str = ""

    def __post_init__(self) -> None:
        """Refuse a file outside the corpus: it is deleted after its task."""
        if self.file:
            inner_path(self.file)


class PlannedShard(msgspec.Struct, frozen=True):
    """A shard, and where its bytes are.

    Attributes:
        shard: the shard; it has its bytes only while it is being made.
        stored: where its bytes are; None if the reader knows.
    """

    shard: Shard
    stored: Stored | None = None

    @property
    def size(self) -> int:
        """The larger of the bytes on disk and in memory: few compressed bytes may expand to a large shard."""
        if self.stored:
            return self.stored.size if self.stored.segment >= 0 else max(self.shard.weight, self.stored.size)
        return max(self.shard.weight, len(self.shard.data or b""))

    @property
    def digest(self) -> bytes:
        """Identify the bytes of the shard, in a file that is known by its hash."""
        return self.shard.data or (self.stored.digest.encode() if self.stored else b"")


def group_shards(shards: Iterable[PlannedShard]) -> Iterator[list[PlannedShard]]:
    """Yield the shards of each task: one shard, or consecutive small ones."""
    group: list[PlannedShard] = []
    total = 0
    for planned in shards:
        if group and (total + planned.size > _GROUP or len(group) == _GROUP_SHARDS):
            yield group
            group, total = [], 0
        group.append(planned)
        total += planned.size
    if group:
        yield group


def digest_group(group: list[PlannedShard]) -> str:
    """Return the hash that identifies the input of a task."""
    digest = xxhash.xxh3_128()
    for planned in group:
        shard = planned.shard
        digest.update(f"{shard.index}:{shard.start}:{shard.end}:".encode())
        digest.update(planned.digest)
    return digest.hexdigest()


def cached_outputs(group: Iterable[PlannedShard]) -> list[Output]:
    """Return the files with cached bytes of some shards."""
    stored = [planned.stored for planned in group if planned.stored and planned.stored.file]
    return [Output(each.file, 1, each.sha256) for each in stored]


def without_data(shard: Shard, root: Path, name: str) -> PlannedShard:
    """Return a shard whose bytes, if it has any, are cached.

    Args:
        shard: the shard.
        root: directory of the corpus.
        name: name of the file of the bytes; "" if they are not to be written, but read again from the input.

    Raises:
        MachineError: the disk is full or not writable.
    """
    if shard.data is None:
        return PlannedShard(shard)
    stored = Stored(len(shard.data), xxhash.xxh3_128_hexdigest(shard.data))
    if name:
        packed = zstandard.ZstdCompressor(level=_LEVEL).compress(shard.data)
        write_atomic(root / (file := f"{CACHE}/{name}.zst"), packed)
        stored = msgspec.structs.replace(stored, file=file, sha256=hashlib.sha256(packed).hexdigest())
    return PlannedShard(msgspec.structs.replace(shard, data=None), stored)


def load_shard(planned: PlannedShard, reader: Reader, root: Path) -> Shard:
    """Return a shard with its bytes, or one whose bytes the reader reads itself.

    Cached bytes that are missing or damaged are read from the input again, unless another copy of the task has read
    them and is finished: then an error makes the runner take that copy's receipt.

    Args:
        planned: the shard.
        reader: the reader of its source.
        root: directory of the corpus.

    Raises:
        InputError: the input has changed, or is damaged.
        DamagedError: cached bytes of a pipe are missing or damaged, or another copy of the task has deleted them.
    """
    stored = planned.stored
    if stored is None:
        return planned.shard
    if stored.segment >= 0:
        return msgspec.structs.replace(planned.shard, data=_read_segment(planned.shard.path, stored))
    if stored.file:
        if (data := _read_unless_consumed(root, stored)) is not None:
            return msgspec.structs.replace(planned.shard, data=data)
        if size_of(planned.shard.path) is None:  # a pipe, whose bytes cannot be had again
            what = "this file with bytes of a pipe is missing or damaged"
            raise DamagedError(what, where=str(root / stored.file), fix=RUN_AGAIN)
        _log.warning("%s is missing or damaged: %s is read again", root / stored.file, planned.shard.path)
    return _cut_again(planned, stored, reader)


def _read_unless_consumed(root: Path, stored: Stored) -> bytes | None:
    """Return cached bytes; None if they are missing or damaged.

    Raises:
        DamagedError: another copy of the task has read and deleted them, and its receipt is intact.
    """
    path, output = root / stored.file, Output(stored.file, 1, stored.sha256)
    data = _read_cached(path, stored) if path.exists() or not OutputChecks().is_consumed(root, output) else None
    if data is None and OutputChecks().is_consumed(root, output):  # looked up again: it may have become so meanwhile
        raise DamagedError("another copy of this task has read and deleted this file", where=str(path), fix=RUN_AGAIN)
    return data


def _read_cached(path: Path, stored: Stored) -> bytes | None:
    """Return cached bytes; None if they are missing, changed or damaged."""
    try:
        with translate_read_errors(str(path)):
            packed = path.read_bytes() if wait_for_file(path) else b""
        data = zstandard.ZstdDecompressor().decompress(packed, max_output_size=stored.size)
    except (zstandard.ZstdError, FileNotFoundError):
        return None
    return data if xxhash.xxh3_128_hexdigest(data) == stored.digest else None


def _read_segment(path: str, stored: Stored) -> bytes:
    with closing(open_segments(path, stored.segment, stored.max_ratio)) as stream:
        _skip(stream, stored.skip)
        data = b"".join(_pieces(stream, stored.size))
    if len(data) < stored.size:
        raise input_changed(path, f"behind compressed byte {stored.segment:,}")
    return data


def _skip(stream: RawIOBase, size: int) -> None:
    for _ in _pieces(stream, size):
        pass


def _pieces(stream: RawIOBase, size: int) -> Iterator[bytes]:
    while size > 0 and (data := stream.read(min(size, 1 << 20))):
        size -= len(data)
        yield data


def _cut_again(planned: PlannedShard, stored: Stored, reader: Reader) -> Shard:
    """Let the reader cut the input from its start, up to the shard."""
    shards = cast("Any", reader.shards(planned.shard.path))
    found = next((shard for shard in shards if shard.index == planned.shard.index), None)
    if hasattr(shards, "close"):
        shards.close()  # the file
    if found is None or xxhash.xxh3_128_hexdigest(found.data or b"") != stored.digest:
        raise input_changed(planned.shard.path)
    return msgspec.structs.replace(planned.shard, data=found.data)
