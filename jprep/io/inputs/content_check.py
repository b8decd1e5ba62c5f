"""Compare inputs, as they are read, with the hashes that were taken of them.

An input is hashed once, as a whole and block by block. Between `expect_contents` and `forget_contents` every block that
this process reads through `jprep.io.inputs` is compared with its hash. So the bytes that are used are those that the
SHA-256 stands for, even if the file is replaced or written to in the meantime, or the disk fails.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any, Protocol

from jprep.errors import InputChangedError
from jprep.io import hashing
from jprep.io.hashing import ContentHash, hash_block, read_block

_CACHED = 4  # blocks that an open file keeps: readers seek back a little


class SeekableFile(Protocol):
    """A file that can be read from any offset."""

    def read(self, size: int, /) -> bytes | None:
        """Return up to `size` bytes, none at the end."""

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position."""

    def seekable(self) -> bool:
        """Return whether `seek` works."""

    def close(self) -> None:
        """Close the file."""


_expected: dict[str, ContentHash] = {}


def expect_contents(contents: Mapping[str, ContentHash]) -> None:
    """Compare what this process reads of these inputs, by path or URL, from now on."""
    _expected.update(contents)


def forget_contents(paths: Mapping[str, ContentHash]) -> None:
    """Stop comparing what is read of these inputs."""
    for path in paths:
        _expected.pop(path, None)


def compare_on_read(file: Any, path: str) -> Any:
    """Return the file, or one that compares what is read of it if its hashes are expected."""
    content = _expected.get(path)
    return _ComparedFile(file, path, content) if content else file


def input_changed(path: str, detail: str = "") -> InputChangedError:
    """Return the error for an input that differs from what was hashed."""
    where = f"{path}, {detail}" if detail else path
    fix = "restore the file and run the same command again, or build from the new file with --restart"
    return InputChangedError("the input has changed since the build hashed it", where=where, fix=fix)


class _ComparedFile:
    """A file that is read in whole blocks, each compared with its hash."""

    def __init__(self, file: SeekableFile, path: str, content: ContentHash) -> None:
        self._file, self._path, self._content = file, path, content
        self._at = self._read_to = 0
        self._blocks: dict[int, bytes] = {}

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes, none at the end."""
        number, start = divmod(self._at, hashing.BLOCK)
        data = self._block(number)[start : start + size]
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Set the position."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._content.size}[whence]
        self._at = base + offset
        return self._at

    def seekable(self) -> bool:
        """Return whether the file can be read from any offset."""
        return self._file.seekable()

    def close(self) -> None:
        """Close the file."""
        self._blocks.clear()
        self._file.close()

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            data = self._read(number)
            if len(self._blocks) >= _CACHED:
                del self._blocks[next(iter(self._blocks))]  # the oldest
            self._blocks[number] = data
        return self._blocks[number]

    def _read(self, number: int) -> bytes:
        if self._read_to != number * hashing.BLOCK:
            self._file.seek(number * hashing.BLOCK)
        data = read_block(self._file)
        self._read_to = number * hashing.BLOCK + len(data)
        if (hash_block(data) if data else b"") != self._content.block(number):
            raise input_changed(self._path, f"bytes {number * hashing.BLOCK:,} to {self._read_to:,}")
        return data
