"""Input files: which they are, how large, and their hashes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

import msgspec

from jprep.corpus.config import Source
from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.io.atomic import write_atomic
from jprep.io.inputs.content_check import ContentHash, hash_content, input_changed
from jprep.io.inputs.paths import STDIN, expand_patterns, is_local, size_of
from jprep.io.inputs.streams import open_raw
from jprep.io.verified_files import FileState, file_state, read_if_exists


class Input(msgspec.Struct, frozen=True):
    """One input file.

    Attributes:
        path: where it is on this machine.
        name: its own name, which travels into manifests.
        size: bytes on disk; 0 for a pipe.
        content: the hashes of its bytes as they are on disk; None for a pipe, whose shards carry hashes of their own.
        state: what the file system said of a local file when it was hashed; None for others.
    """

    path: str
    name: str
    size: int
    content: ContentHash | None = None
    state: FileState | None = None

    @property
    def sha256(self) -> str:
        """Of its bytes as they are on disk; "" for a pipe."""
        return self.content.sha256 if self.content else ""

    @property
    def is_pipe(self) -> bool:
        """Whether it can be read only once, and so cannot be hashed beforehand."""
        return self.content is None

    def public(self) -> dict[str, object]:
        """What a manifest says of it: nothing of this machine."""
        return {"name": self.name, "size": self.size, "sha256": self.sha256}


def find_inputs(source: Source, cache: Path, *, fresh: bool = False) -> list[Input]:
    """Return the files of a source, hashed.

    Args:
        source: its paths may be patterns.
        cache: a file that remembers hashes of local files whose size, times and inode have not changed since.
        fresh: hash all files again.

    Raises:
        ConfigError: a path matches nothing.
        MachineError: a file cannot be read.
        InputError: a file changed while it was hashed.
    """
    known = {} if fresh else _remembered(cache)
    return [_look_at(path, known, cache) for path in expand_patterns(source.paths)]


def contents_of(files: Iterable[Input]) -> dict[str, ContentHash]:
    """Return the contents of the files that could be hashed, by path."""
    return {file.path: file.content for file in files if file.content}


def refuse_changed(file: Input) -> None:
    """See that a local file is still the one that was hashed; for readers that open files on their own.

    The file is hashed again only if its size or times are not what they were. Inodes are left out: some network file
    systems give a file another one now and then, and no file can take another's place and time of change.

    Raises:
        InputError: its content is another.
        ConfigError: it is gone.
    """
    if file.state is None:
        return
    then, now = (state._replace(inode=0) for state in (file.state, file_state(Path(file.path))))
    if now != then and _sha256(file.path, now) != file.sha256:
        raise input_changed(file.path)


@lru_cache
def _sha256(path: str, state: FileState) -> str:
    """Hash a file once in each state that it is in."""
    return _hashed(path).sha256


def _look_at(path: str, known: dict[str, ContentHash], cache: Path) -> Input:
    name = "stdin" if path == STDIN else path.rstrip("/").rpartition("/")[2]
    size = size_of(path)
    if path == STDIN or (is_local(path) and size is None):  # a named pipe would be empty once it was hashed
        return Input(path, name, 0)
    if not is_local(path):
        return Input(path, name, size or 0, _hashed(path))
    state = file_state(Path(path))
    key = "|".join(map(str, (os.path.realpath(path), *state)))
    if key not in known:
        known[key] = _hashed(path)
        if file_state(Path(path)) != state:
            raise input_changed(path)
        write_atomic(cache, encode_checksummed(known))
    return Input(path, name, state.size, known[key], state)


def _remembered(cache: Path) -> dict[str, ContentHash]:
    try:
        return decode_checksummed(read_if_exists(cache) or b"", dict[str, ContentHash])
    except ValueError:  # then the files are hashed again
        return {}


def _hashed(path: str) -> ContentHash:
    with open_raw(path) as file:
        return hash_content(file)
