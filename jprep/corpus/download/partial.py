"""A download under way: `NAME.part`, and what is known of it in `NAME.part.json`."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec
import xxhash

from jprep.corpus.download.remote import Answer
from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.io.atomic import write_atomic

_log = logging.getLogger(__name__)

SYNC_BYTES = 1 << 26
"""What a power cut can cost of a download."""


class State(msgspec.Struct):
    """What is known of a download under way.

    Attributes:
        url: what is downloaded.
        validator: what tells that the mirror still has the same file.
        total: bytes of the whole file; -1 if the mirror does not say.
        safe: bytes that have reached the disk.
        hash: XXH3 (128 bits) of those; "" in the files of jprep 0.1.
    """

    url: str
    validator: str = ""
    total: int = -1
    safe: int = 0
    hash: str = ""


class Part:
    """`NAME.part` and `NAME.part.json`."""

    def __init__(self, path: Path, url: str) -> None:
        self.final, self.path = path, path.with_name(path.name + ".part")
        self._state_path = path.with_name(path.name + ".part.json")
        self._hash, self._hashed = xxhash.xxh3_128(), 0  # of the first so many bytes
        self.state = self._read(url)

    def _read(self, url: str) -> State:
        try:
            state = decode_checksummed(self._state_path.read_bytes(), State)
            sound = self._is_sound(state)
        except FileNotFoundError:
            return State(url)
        except ValueError:
            sound = False
        if not sound:
            _log.warning("%s is damaged: it is downloaded again", self.path)
        return state if sound and state.url == url else State(url)

    def _is_sound(self, state: State) -> bool:
        """Return whether the bytes that had reached the disk are still there."""
        if self.path.stat().st_size < state.safe:
            return False
        self._hash, self._hashed = _hash_of(self.path, state.safe), state.safe
        return not state.hash or self._hash.hexdigest() == state.hash

    @property
    def complete(self) -> bool:
        """Whether all bytes are there, and on the disk."""
        return self.state.safe == self.state.total

    @contextmanager
    def writing(self, answer: Answer) -> Iterator[Callable[[bytes], int]]:
        """Give a function that appends bytes and returns how many there are. What was written is kept in any case."""
        if answer.start != self._hashed:
            self._hash, self._hashed = _hash_of(self.path, answer.start), answer.start
        self.state.validator, self.state.total, self.state.safe = answer.validator, answer.total, answer.start
        self.state.hash = self._hash.hexdigest()
        self._save()
        with self.path.open("r+b" if answer.start else "wb") as stream:
            if answer.start:
                stream.truncate(stream.seek(answer.start))

            def write(chunk: bytes) -> int:
                stream.write(chunk)
                self._hash.update(chunk)
                self._hashed += len(chunk)
                if stream.tell() - self.state.safe >= SYNC_BYTES:
                    self._sync(stream)
                return stream.tell()

            try:
                yield write
            except OSError:  # the disk's own: syncing now would only hide it behind a second one
                raise
            except BaseException:
                self._sync(stream)
                raise
            self._sync(stream)

    def _sync(self, stream: BinaryIO) -> None:
        stream.flush()
        os.fsync(stream.fileno())
        self.state.safe, self.state.hash = stream.tell(), self._hash.hexdigest()
        self._save()

    def _save(self) -> None:
        write_atomic(self._state_path, encode_checksummed(self.state))

    def commit(self) -> None:
        """Give the file its name; the record, written next, syncs the folder."""
        self.path.replace(self.final)
        self._state_path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Drop what was downloaded."""
        self._state_path.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)


def _hash_of(path: Path, size: int) -> xxhash.xxh3_128:
    """Hash the first bytes of a file that has as many."""
    digest = xxhash.xxh3_128()
    if not size:
        return digest
    with path.open("rb") as stream:
        while data := stream.read(min(1 << 20, size)):
            digest.update(data)
            size -= len(data)
    return digest
