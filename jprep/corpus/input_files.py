"""Find and hash the input files of a source."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import msgspec

from jprep.corpus.config import DecontaminateConfig, Source
from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.hub.commits import commit_of_url
from jprep.io.atomic import write_atomic
from jprep.io.hashing import ContentHash, FileState, cached_sha256, file_state, hash_content
from jprep.io.inputs.content_check import input_changed
from jprep.io.inputs.paths import STDIN, expand_patterns, is_local, size_of
from jprep.io.inputs.streams import open_raw
from jprep.io.machine import cpu_count
from jprep.io.remote import has_password, object_version
from jprep.io.verified_files import read_if_exists

_THREADS = 8  # that hash files: more would only wait for the disk


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
        cache: file that caches the hashes of local files, by path, size, times and inode, and of objects, by URL, size
            and what the store calls their content.
        fresh: ignore the cache.

    Raises:
        ConfigError: a path matches nothing.
        MachineError: a file cannot be read.
        InputError: a file changed while it was hashed.
    """
    known = {} if fresh else _read_cache(cache)
    paths, commits = expand_patterns(source.paths), dict[tuple[str, str, str], str]()
    named = {path: commit_of_url(path, commits) for path in paths}
    files = _describe_all(paths, known, cache)
    return [msgspec.structs.replace(file, commit=named[path]) for path, file in zip(paths, files, strict=True)]


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


def _describe_all(paths: Sequence[str], known: dict[str, ContentHash], cache: Path) -> Iterator[InputFile]:
    """Yield the inputs in order. Local files are hashed side by side: the hash functions let other threads run.

    Threads that are still hashing when the caller is interrupted stop within a block, and what is known is kept.
    """
    threads, stop, saved = ThreadPoolExecutor(min(cpu_count(), _THREADS)), Event(), len(known)
    try:
        local = {path: threads.submit(describe_input, path, known, stop) for path in paths if is_local(path)}
        for path in paths:
            file = local[path].result() if path in local else describe_input(path, known)
            saved = _write_cache(cache, known, saved)
            yield file
    finally:
        stop.set()
        threads.shutdown(cancel_futures=True)
        _write_cache(cache, known, saved)


def _write_cache(cache: Path, known: dict[str, ContentHash], saved: int) -> int:
    """Write the hashes if there are more than the `saved` ones; return how many are written now."""
    if len(known) <= saved:
        return saved
    copied = dict(known)  # threads may add to it meanwhile
    write_atomic(cache, encode_checksummed(copied))
    return len(copied)


def describe_input(path: str, known: dict[str, ContentHash], stop: Event | None = None) -> InputFile:
    """Return an input with its hashes.

    Args:
        path: path or URL.
        known: hashes of local files, by path, size, times and inode, and of objects; the input's are added.
        stop: ends the hashing of a local file when it is set.

    Raises:
        ConfigError: the file does not exist.
        MachineError: it cannot be read.
        InputError: it changed while it was hashed.
        Interrupted: `stop` was set.
    """
    name = "stdin" if path == STDIN else path.rstrip("/").rpartition("/")[2]
    size = size_of(path)
    if path == STDIN or (is_local(path) and size is None):  # hashing a named pipe would consume it
        return InputFile(path, name, 0)
    if not is_local(path):
        return InputFile(path, name, size or 0, _hash_object(path, size, known))
    state = file_state(Path(path))
    key = "|".join(map(str, (os.path.realpath(path), *state)))
    if key not in known:
        content = _hash(path, stop)
        if file_state(Path(path)) != state:
            raise input_changed(path)
        known[key] = content
    return InputFile(path, name, state.size, known[key], state)


def _hash_object(url: str, size: int | None, known: dict[str, ContentHash]) -> ContentHash:
    """Return the hashes of an object, which is read only if its store does not call its content what it did before."""
    version = "" if size is None or has_password(url) else object_version(url)
    if not version:
        return _hash(url)
    key = f"{url}|{size}|{version}"
    if key not in known:
        content = _hash(url)
        if object_version(url) != version:
            raise input_changed(url)
        known[key] = content
    return known[key]


def _read_cache(cache: Path) -> dict[str, ContentHash]:
    try:
        return decode_checksummed(read_if_exists(cache) or b"", dict[str, ContentHash])
    except ValueError:  # damaged: the files are hashed again
        return {}


def _hash(path: str, stop: Event | None = None) -> ContentHash:
    with open_raw(path) as file:
        return hash_content(file, stop)
