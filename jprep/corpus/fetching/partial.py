"""A download under way: `NAME.part`, and what is known of it in `NAME.part.json`."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from jprep.corpus.fetching.remote import Answer
from jprep.io.atomic import write_atomic

SYNC_BYTES = 1 << 26
"""What a power cut can cost of a download."""


class State(msgspec.Struct):
    """What is known of a download under way; `safe` bytes of it have reached the disk."""

    url: str
    validator: str = ""
    total: int = -1
    safe: int = 0


class Part:
    """`NAME.part` and `NAME.part.json`."""

    def __init__(self, path: Path, url: str) -> None:
        self.final, self.path = path, path.with_name(path.name + ".part")
        self._state_path = path.with_name(path.name + ".part.json")
        self.state = self._read(url)

    def _read(self, url: str) -> State:
        try:
            state = msgspec.json.decode(self._state_path.read_bytes(), type=State)
            whole = self.path.stat().st_size >= state.safe
        except (FileNotFoundError, ValueError):
            return State(url)
        return state if whole and state.url == url else State(url)

    @property
    def complete(self) -> bool:
        """Whether all bytes are there, and on the disk."""
        return self.state.safe == self.state.total

    @contextmanager
    def writing(self, answer: Answer) -> Iterator[Callable[[bytes], int]]:
        """Give a function that appends bytes and returns how many there are. What was written is kept in any case."""
        self.state.validator, self.state.total, self.state.safe = answer.validator, answer.total, answer.start
        self._save()
        with self.path.open("r+b" if answer.start else "wb") as stream:
            if answer.start:
                stream.truncate(stream.seek(answer.start))

            def write(chunk: bytes) -> int:
                stream.write(chunk)
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
        self.state.safe = stream.tell()
        self._save()

    def _save(self) -> None:
        write_atomic(self._state_path, msgspec.json.encode(self.state))

    def commit(self) -> None:
        """Give the file its name; the record, written next, syncs the folder."""
        self.path.replace(self.final)
        self._state_path.unlink(missing_ok=True)

    def discard(self) -> None:
        """Drop what was downloaded."""
        self._state_path.unlink(missing_ok=True)
        self.path.unlink(missing_ok=True)
