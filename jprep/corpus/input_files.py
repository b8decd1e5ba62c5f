"""Find and hash the input files of a source."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import msgspec

from jprep.corpus.config import DecontaminateConfig, Source
from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.hub.commits import commit_of_url
from jprep.io.atomic import write_atomic
from jprep.io.hashing import ContentHash, FileState, cached_sha256, file_state, hash_content
from jprep.io.inputs.content_check import input_changed
from jprep.io.inputs.paths import STDIN, expand_patterns, is_local, size_of
from jprep.io.inputs.streams import open_raw
from jprep.io.verified_files import read_if_exists


class InputFile(msgspec.Struct, frozen=True):
    """One input file.

    Attributes:
        path: path or URL on this machine.
        name: file name, which is stored in manifests.
        size: bytes on disk; 0 for a pipe.
        content: hashes of the bytes on disk; None for a pipe, whose shards are hashed instead.
        state: size, times and inode of a local file when it was hashed; None for other inputs.
        commit: the commit of the repository on the Hugging Face Hub that the file was read from, or "".
    """

    path: str
    name: str
    size: int
    content: ContentHash | None = None
    state: FileState | None = None
    commit: str = ""

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes on disk; "" for a pipe."""
        return self.content.sha256 if self.content else ""

    @property
    def is_pipe(self) -> bool:
        """Whether the input can be read only once, and so cannot be hashed beforehand."""
        return self.content is None

    def public(self) -> dict[str, object]:
        """Return the entry for manifests, without paths of this machine."""
        return {"name": self.name, "size": self.size, "sha256": self.sha256}


def find_inputs(source: Source | DecontaminateConfig, cache: Path, *, fresh: bool = False) -> list[InputFile]:
    """Return the files of a source or a test set, hashed.

    Args:
        source: the source or the test set; its paths may be patterns.
        cache: file that caches the hashes of local files, by path, size, times and inode.
        fresh: ignore the cache.

    Raises:
        ConfigError: a path matches nothing.
        MachineError: a file cannot be read.
        InputError: a file changed while it was hashed.
    """
    known = {} if fresh else _read_cache(cache)
    paths, commits = expand_patterns(source.paths), dict[tuple[str, str, str], str]()
    named = {path: commit_of_url(path, commits) for path in paths}
    return [msgspec.structs.replace(_describe(path, known, cache), commit=named[path]) for path in paths]


def contents_by_path(files: Iterable[InputFile]) -> dict[str, ContentHash]:
    """Return the hashes of the files that have any, by path, as `expect_contents` takes them."""
    return {file.path: file.content for file in files if file.content}


def refuse_changed(file: InputFile) -> None:
    """Check that a local file has not changed since it was hashed. For readers that open files on their own.

    The file is hashed again only if its size or times differ. Inodes are not compared: some network file systems
    change them, and a replaced file differs in its change time.

    Raises:
        InputError: the content has changed.
        ConfigError: the file no longer exists.
    """
    if file.state is None:
        return
    then, now = (state._replace(inode=0) for state in (file.state, file_state(Path(file.path))))
    if now != then and cached_sha256(Path(file.path)) != file.sha256:
        raise input_changed(file.path)


def _describe(path: str, known: dict[str, ContentHash], cache: Path) -> InputFile:
    before = len(known)
    file = describe_input(path, known)
    if len(known) > before:
        write_atomic(cache, encode_checksummed(known))
    return file


def describe_input(path: str, known: dict[str, ContentHash]) -> InputFile:
    """Return an input with its hashes.

    Args:
        path: path or URL.
        known: hashes of local files, by path, size, times and inode; the file's are added.

    Raises:
        ConfigError: the file does not exist.
        MachineError: it cannot be read.
        InputError: it changed while it was hashed.
    """
    name = "stdin" if path == STDIN else path.rstrip("/").rpartition("/")[2]
    size = size_of(path)
    if path == STDIN or (is_local(path) and size is None):  # hashing a named pipe would consume it
        return InputFile(path, name, 0)
    if not is_local(path):
        return InputFile(path, name, size or 0, _hash(path))
    state = file_state(Path(path))
    key = "|".join(map(str, (os.path.realpath(path), *state)))
    if key not in known:
        known[key] = _hash(path)
        if file_state(Path(path)) != state:
            raise input_changed(path)
    return InputFile(path, name, state.size, known[key], state)


def _read_cache(cache: Path) -> dict[str, ContentHash]:
    try:
        return decode_checksummed(read_if_exists(cache) or b"", dict[str, ContentHash])
    except ValueError:  # damaged: the files are hashed again
        return {}


def _hash(path: str) -> ContentHash:
    with open_raw(path) as file:
        return hash_content(file)
