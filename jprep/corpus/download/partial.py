"""An unfinished download: `NAME.part`, and its state in `NAME.part.json`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import BinaryIO

import msgspec
import xxhash

from jprep.corpus.download.remote import RemoteContent
from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.io.atomic import write_atomic

_log = logging.getLogger(__name__)

SYNC_BYTES = 1 << 26
"""Bytes between two syncs: the most that a power failure can lose of a download."""


class PartialState(msgspec.Struct):
    """State of an unfinished download.

    Attributes:
        url: address of the file.
        validator: ETag or Last-Modified header that identifies this version of the file.
        total: size of the whole file in bytes; -1 if unknown.
        safe: bytes synced to the disk.
        hash: XXH3 (128 bits) of these bytes; "" in files written by jprep 0.1.
    """

    url: str
    validator: str = ""
    total: int = -1
    safe: int = 0
    hash: str = ""


class PartialFile:
    """`NAME.part` and `NAME.part.json`.

    Args:
        path: final path of the file.
        url: address of the file. The state of a download from another address is discarded.
    """

    def __init__(self, path: Path, url: str) -> None:
        self.final, self.path = path, path.with_name(path.name + ".part")
        self._state_path = path.with_name(path.name + ".part.json")
        self._hash, self._hashed = xxhash.xxh3_128(), 0  # hash of the first `_hashed` bytes
        self.state = self._read(url)

    def _read(self, url: str) -> PartialState:
        try:
            state = decode_checksummed(self._state_path.read_bytes(), PartialState)
            sound = self._is_sound(state)
        except FileNotFoundError:
            return PartialState(url)
        except ValueError:
            sound = False
        if not sound:
            _log.warning("%s is damaged and will be downloaded again", self.path)
        return state if sound and state.url == url else PartialState(url)

    def _is_sound(self, state: PartialState) -> bool:
        """Return whether the bytes synced to the disk are still intact."""
        if self.path.stat().st_size < state.safe:
            return False
        self._hash, self._hashed = _hash_of(self.path, state.safe), state.safe
        return not state.hash or self._hash.hexdigest() == state.hash

    @property
    def complete(self) -> bool:
        """Whether all bytes are synced to the disk."""
        return self.state.safe == self.state.total

    @contextmanager
    def writing(self, response: RemoteContent) -> Iterator[Callable[[bytes], int]]:
        """Yield a function that appends bytes and returns the size so far. Written bytes are kept after any error."""
        self._begin(response)
        with self.path.open("r+b" if response.start else "wb") as stream:
            if response.start:
                stream.truncate(stream.seek(response.start))
            try:
                yield partial(self._append, stream)
            except OSError:  # an error of the disk: syncing could raise another one that hides it
                raise
            except BaseException:
                self._sync(stream)
                raise
            self._sync(stream)

    def _begin(self, response: RemoteContent) -> None:
        """Store the state before the first byte of a response is written."""
        if response.start != self._hashed:
            self._hash, self._hashed = _hash_of(self.path, response.start), response.start
        self.state.validator, self.state.total, self.state.safe = response.validator, response.total, response.start
        self.state.hash = self._hash.hexdigest()
        self._save()

    def _append(self, stream: BinaryIO, chunk: bytes) -> int:
        """Append a chunk, and return the size of the file."""
        stream.write(chunk)
        self._hash.update(chunk)
        self._hashed += len(chunk)
        if stream.tell() - self.state.safe >= SYNC_BYTES:
            self._sync(stream)
        return stream.tell()

    def _sync(self, stream: BinaryIO) -> None:
        stream.flush()
        os.fsync(stream.fileno())
        self.state.safe, self.state.hash = stream.tell(), self._hash.hexdigest()
        self._save()

    def _save(self) -> None:
        write_atomic(self._state_path, encode_checksummed(self.state))

    def commit(self) -> None:
        """Rename the file to its final name. Writing the record afterwards syncs the folder."""
        self.path.replace(self.final)
        self._state_path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Delete the downloaded bytes."""
        self._state_path.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


def _hash_of(path: Path, size: int) -> xxhash.xxh3_128:
    """Return the hash of the first `size` bytes of a file."""
    digest = xxhash.xxh3_128()
    if not size:
        return digest
    with path.open("rb") as stream:
        while data := stream.read(min(1 << 20, size)):
            digest.update(data)
            size -= len(data)
    return digest
