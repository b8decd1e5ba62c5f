"""Hashes of files, remembered for as long as the files do not change."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from threading import Event
from typing import NamedTuple, Protocol

import msgspec
import xxhash

from jprep.errors import Interrupted
from jprep.io.atomic import file_sha256
from jprep.io.os_errors import translate_read_errors
from jprep.io.shared.network_files import retry_stale

BLOCK = 1 << 20
"""Bytes of a block that has a hash of its own."""
BLOCK_DIGEST = 16
"""Bytes of a block's hash, XXH3 with 128 bits."""

_SETTLED = 2_000_000_000
"""Nanoseconds. A file that changed more recently could change again without a change of its times."""


class FileState(NamedTuple):
    """What the file system says of a file. Any write changes it; a failing disk does not."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> FileState:
        """Return the state in the result of `stat`."""
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)

    def is_settled(self, now_ns: int) -> bool:
        """Return whether the last change is so long before `now_ns` that another one would change the times."""
        return now_ns - max(self.mtime_ns, self.ctime_ns) > _SETTLED


def file_state(path: Path) -> FileState:
    """Return a file's state.

    Raises:
        ConfigError: there is no such file.
        MachineError: it cannot be read.
    """
    with translate_read_errors(str(path)):
        return FileState.of(path.stat())


_hashes: dict[Path, tuple[FileState, str]] = {}
"""The files that this process hashed, with their states at that time."""


def cached_sha256(path: Path) -> str:
    """Return the SHA-256 of a file; a file is hashed once per process in each state.

    Raises:
        ConfigError: there is no such file.
        MachineError: it cannot be read.
    """
    state = file_state(path)
    known = _hashes.get(path)
    if known and known[0] == state:
        return known[1]
    with translate_read_errors(str(path)):
        sha256 = retry_stale(lambda: file_sha256(path))
    if state.is_settled(time.time_ns()):
        _hashes[path] = state, sha256
    return sha256


class ContentHash(msgspec.Struct, frozen=True):
    """Hashes of an input, of the whole and of each block.

    Attributes:
        size: stored bytes.
        sha256: of all bytes.
        blocks: XXH3-128 of each `BLOCK` bytes, concatenated.
    """

    size: int
    sha256: str
    blocks: bytes

    def block(self, number: int) -> bytes:
        """Return the hash of a block; nothing after the last one."""
        return self.blocks[number * BLOCK_DIGEST : (number + 1) * BLOCK_DIGEST]


class Readable(Protocol):
    """A file opened for reading."""

    def read(self, size: int, /) -> bytes | None:
        """Return up to `size` bytes, none at the end."""


def hash_content(file: Readable, stop: Event | None = None) -> ContentHash:
    """Read a file to its end and hash it.

    Args:
        file: the file.
        stop: checked for each block.

    Raises:
        Interrupted: `stop` was set.
    """
    size, whole, blocks = 0, hashlib.sha256(), bytearray()
    while data := read_block(file):
        if stop and stop.is_set():
            raise Interrupted("hashing was interrupted", fix="run the same command again")
        size += len(data)
        whole.update(data)
        blocks += hash_block(data)
    return ContentHash(size, whole.hexdigest(), bytes(blocks))


def hash_block(data: bytes) -> bytes:
    """Return the hash of a block."""
    return xxhash.xxh3_128_digest(data)


def read_block(file: Readable) -> bytes:
    """Return the next block, complete unless the file ends in it."""
    data = b""
    while len(data) < BLOCK and (more := file.read(BLOCK - len(data))):
        data = data + more if data else more
    return data
