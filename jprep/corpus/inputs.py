"""Input files: which they are, how large, and their hashes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import msgspec

from jprep.corpus.recipe import Source
from jprep.io.atomic import write_atomic
from jprep.io.paths import STDIN, expand, is_local, size_of
from jprep.io.raw import Source as RawFile


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
    before = len(known)
    inputs = [_look_at(path, known) for path in expand(source.paths)]
    if len(known) > before:
        write_atomic(cache, msgspec.json.encode(known))
    return inputs


def _look_at(path: str, known: dict[str, str]) -> Input:
    if path == STDIN:
        return Input(path, "stdin", 0, "")
    key = _state(path)
    if not key or key not in known:
        known[key or path] = _sha256(path)
    return Input(path, path.rstrip("/").rpartition("/")[2], size_of(path) or 0, known[key or path])


def _state(path: str) -> str:
    """What changes whenever a local file does; "" for others."""
    if not is_local(path):
        return ""
    status = Path(path).stat()
    return f"{os.path.realpath(path)}\\0{status.st_size}\\0{status.st_mtime_ns}"


def _sha256(path: str) -> str:
    digest = hashlib.sha256()
    with RawFile(path) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
