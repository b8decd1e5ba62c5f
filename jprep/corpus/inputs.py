"""Input files: which they are, how large, and their hashes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from jprep.corpus.recipe import Source
from jprep.io.atomic import write_atomic
from jprep.io.paths import STDIN, expand, is_local, size_of
from jprep.io.streams import open_raw


class Input(msgspec.Struct, frozen=True):
    """One input file.

    Attributes:
        path: where it is on this machine.
        name: its own name, which travels into manifests.
        size: bytes on disk; 0 for a pipe.
        sha256: of its bytes as they are on disk; "" for a pipe, whose shards carry hashes of their own.
    """

    path: str
    name: str
    size: int
    sha256: str

    @property
    def is_pipe(self) -> bool:
        """Whether it can be read only once, and so cannot be hashed beforehand."""
        return not self.sha256

    def public(self) -> dict[str, object]:
        """What a manifest says of it: nothing of this machine."""
        return {"name": self.name, "size": self.size, "sha256": self.sha256}


def find_inputs(source: Source, cache: Path) -> list[Input]:
    """The files of a source, hashed.

    Args:
        source: its paths may be patterns.
        cache: a file that remembers hashes of local files that have not changed since (size, time of change).

    Raises:
        ConfigError: a path matches nothing.
        MachineError: a file cannot be read.
    """
    known: dict[str, str] = msgspec.json.decode(cache.read_bytes()) if cache.exists() else {}
    return [_look_at(path, known, cache) for path in expand(source.paths)]


def _look_at(path: str, known: dict[str, str], cache: Path) -> Input:
    name = "stdin" if path == STDIN else path.rstrip("/").rpartition("/")[2]
    size = size_of(path)
    if path == STDIN or (is_local(path) and size is None):  # a named pipe would be empty once it was hashed
        return Input(path, name, 0, "")
    if not is_local(path):
        return Input(path, name, size or 0, _sha256(path))
    if (key := _state(path)) not in known:
        known[key] = _sha256(path)
        write_atomic(cache, msgspec.json.encode(known))
    return Input(path, name, size or 0, known[key])


def _state(path: str) -> str:
    """What changes whenever a local file does."""
    status = Path(path).stat()
    return f"{os.path.realpath(path)}|{status.st_size}|{status.st_mtime_ns}"


def _sha256(path: str) -> str:
    with open_raw(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
