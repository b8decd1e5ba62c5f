"""Inputs that must stay as they were when they were hashed: every block that is read later is compared.

An input is read whole once, for its SHA-256; the same pass notes a hash of each block. Between `expect` and `forget`
whatever this process reads of it through `jprep.io` is checked, block by block, as it is read: so the bytes that are
used are those that the SHA-256 stands for, even where the file is replaced or written to meanwhile, or the disk fails.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec
import xxhash

from jprep.errors import InputError

BLOCK = 1 << 20
_DIGEST = 16  # bytes of an XXH3-128
_KEPT = 4  # blocks held by an open file: readers go back and forth a little


class ContentHash(msgspec.Struct, frozen=True):
    """What an input held when it was hashed.

    Attributes:
        size: bytes, as they are stored.
        sha256: of all of them.
        blocks: XXH3-128 of each `BLOCK` bytes, one behind the other.
    """

    size: int
    sha256: str
    blocks: bytes


class Readable(Protocol):
    """A file that can be read from any place."""

    def read(self, size: int, /) -> bytes | None:
        """Return up to `size` bytes, none at the end."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a byte."""

    def seekable(self) -> bool:
        """Return whether `seek` works."""

    def close(self) -> None:
        """Close it."""


def hash_content(file: Readable) -> ContentHash:
    """Read a file to its end and hash it."""
    size, whole, blocks = 0, hashlib.sha256(), bytearray()
    while data := _full(file):
        size += len(data)
        whole.update(data)
        blocks += xxhash.xxh3_128_digest(data)
    return ContentHash(size, whole.hexdigest(), bytes(blocks))


_expected: dict[str, ContentHash] = {}


def expect_contents(contents: Mapping[str, ContentHash]) -> None:
    """From now on compare what this process reads of these inputs, by path or URI, with what they held."""
    _expected.update(contents)


def forget_contents(paths: Mapping[str, ContentHash]) -> None:
    """End what `expect` began."""
    for path in paths:
        _expected.pop(path, None)


def compare_on_read(file: Any, path: str) -> Any:
    """Return the file, or one that compares what is read of it if that is expected of its path."""
    content = _expected.get(path)
    return _Compared(file, path, content) if content else file


def input_changed(path: str, detail: str = "") -> InputError:
    """Return the error for an input that is not what it was."""
    where = f"{path}, {detail}" if detail else path
    fix = "bring the file back and run the same command again, or build from the new file with --restart"
    return InputError("the input has changed since the build hashed it", where=where, fix=fix)


class _Compared:
    """A file that is read in whole blocks, each compared with its hash."""

    def __init__(self, file: Readable, path: str, content: ContentHash) -> None:
        self._file, self._path, self._content = file, path, content
        self._at = self._read_to = 0
        self._blocks: dict[int, bytes] = {}

    def read(self, size: int, /) -> bytes:
        """Return some bytes, at most `size`; none at the end."""
        number, start = divmod(self._at, BLOCK)
        data = self._block(number)[start : start + size]
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go to a byte."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._content.size}[whence]
        self._at = base + offset
        return self._at

    def seekable(self) -> bool:
        """Return whether the file can be read from any place."""
        return self._file.seekable()

    def close(self) -> None:
        """Close the file."""
        self._blocks.clear()
        self._file.close()

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            data = self._read(number)
            if len(self._blocks) >= _KEPT:
                del self._blocks[next(iter(self._blocks))]  # the oldest
            self._blocks[number] = data
        return self._blocks[number]

    def _read(self, number: int) -> bytes:
        if self._read_to != number * BLOCK:
            self._file.seek(number * BLOCK)
        data = _full(self._file)
        self._read_to = number * BLOCK + len(data)
        expected = self._content.blocks[number * _DIGEST : (number + 1) * _DIGEST]
        if (xxhash.xxh3_128_digest(data) if data else b"") != expected:
            raise input_changed(self._path, f"bytes {number * BLOCK:,} to {number * BLOCK + len(data):,}")
        return data


def _full(file: Readable) -> bytes:
    """Return the next block, whole unless the file ends in it."""
    data = b""
    while len(data) < BLOCK and (more := file.read(BLOCK - len(data))):
        data = data + more if data else more
    return data
