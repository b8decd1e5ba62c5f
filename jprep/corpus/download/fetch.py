"""Downloads what a recipe names: resumed after any interruption, checked against the mirror or against the first fetch.

A file is written to `NAME.part`, with what is known of it in `NAME.part.json`, and takes its own name only when it is
whole and its hashes agree. `fetched.json` beside it holds one `FetchedFile` a file, and binds later fetches.
"""

from __future__ import annotations

import hashlib
import re
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

import msgspec

from jprep.corpus.config import RemoteFile
from jprep.corpus.download.partial import Part
from jprep.corpus.download.remote import Answer, RetryPolicy, Unreachable, ask, persist, read_text
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import DOWNLOADS
from jprep.errors import ConfigError, InputError, MachineError
from jprep.io.atomic import write_atomic, write_error
from jprep.io.safe_names import check_name

RECORD = "fetched.json"
ALGORITHMS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
"""A checksum file does not say what made it: the number of hex digits does."""

ProgressCallback = Callable[[str, int, int], None]
"""Called with a file's name, the bytes there are of it, and those it will have (-1: not known)."""


class FetchedFile(msgspec.Struct, frozen=True):
    """A file that lies in the downloads folder, whole and checked.

    Attributes:
        name: its name in the folder.
        url: where it came from.
        size: its bytes.
        sha256: its hash, which later fetches must agree with.
        etag: the server's ETag or Last-Modified when it was fetched, or "".
        checksums: the mirror's checksum file that it was checked against, or "".
        listed: its line there, `algorithm:digest name`: for `latest`, the name tells the dump's date.
    """

    name: str
    url: str
    size: int
    sha256: str
    etag: str = ""
    checksums: str = ""
    listed: str = ""


def fetch(
    files: Iterable[RemoteFile],
    folder: Path,
    *,
    progress: ProgressCallback | None = None,
    patience: RetryPolicy | None = None,
) -> list[FetchedFile]:
    """Bring files into a folder. What lies there already is checked instead, without the network where it is recorded.

    Args:
        files: what to fetch; a URL may be http(s), `file://` or a path.
        folder: where to put the files and `fetched.json`; made if absent.
        progress: told of every chunk.
        patience: how often to try again; the default suits a mirror over the internet.

    Returns:
        What the folder now holds, in the order of `files`.

    Raises:
        ConfigError: the recipe names a file that is not on the server, or the folder holds an output of another kind.
        InputError: a file is not what the recipe, the mirror or an earlier fetch says.
        MachineError: no network, no disk space, no right to write.
    """
    named = files_by_name(files)
    with _disk(folder), OutputDirectory(folder, DOWNLOADS, shared=True).claim():
        record = _read_record(folder / RECORD)
        for name, file in named.items():
            job = _Job(file, folder / name, record.get(name), patience or RetryPolicy(), progress or _silent)
            record[name] = job.run()
            write_atomic(folder / RECORD, msgspec.json.format(msgspec.json.encode(record, order="sorted")) + b"\n")
    return [record[name] for name in named]


def _silent(name: str, done: int, total: int) -> None:
    """Nobody watches."""


def files_by_name(files: Iterable[RemoteFile]) -> dict[str, RemoteFile]:
    """Files by the names that they get.

    Raises:
        ConfigError: one has no name or none that a file may have, or two have the same.
    """
    named: dict[str, RemoteFile] = {}
    for file in files:
        name = file.name or unquote(urlsplit(file.url).path).rpartition("/")[2]
        check_name(name, what="a download", where=file.url, fix='give it another name: name = "…"')
        if name in (RECORD, DOWNLOADS.lock) or name.endswith((".part", ".part.json")):
            fix = 'give it another name: name = "…"'
            raise ConfigError(
                f"a download cannot be called {name!r}: jprep has files of that name", where=file.url, fix=fix
            )
        if named.setdefault(name, file) != file:
            raise ConfigError(f"two files would be called {name}", where=file.url, fix='give one another: name = "…"')
    return named


class _Job:
    """One file of a fetch."""

    def __init__(
        self, file: RemoteFile, path: Path, known: FetchedFile | None, patience: RetryPolicy, progress: ProgressCallback
    ) -> None:
        self.file, self.path, self.known, self.patience, self.progress = file, path, known, patience, progress

    def run(self) -> FetchedFile:
        if not self.path.exists():
            return self._download()
        if self.known is None:
            return self._accept(self.path, etag="", listed=self._listed())
        if self.known.url != self.file.url:
            raise ConfigError(
                f"{self.path.name} came from another url: {self.known.url}",
                where=str(self.path),
                fix="move it away, or give the recipe's file another name",
            )
        return self._accept(self.path, etag=self.known.etag, listed=self.known.listed)

    def _download(self) -> FetchedFile:
        listed = self._listed()
        known = self.known if self.known and self.known.url == self.file.url else None
        if known and known.listed and listed and known.listed != listed:
            raise self._changed(f"the mirror lists {listed}, and {known.listed} was fetched before")
        part = Part(self.path, self.file.url)
        if not part.complete:
            persist(lambda: self._receive(part, known), self.file.url, self.patience, lambda: part.state.safe)
        try:
            fetched = self._accept(part.path, etag=part.state.validator, listed=listed)
        except InputError:
            part.discard()
            raise
        part.commit()
        return fetched

    def _receive(self, part: Part, known: FetchedFile | None) -> None:
        state, timeout_s = part.state, self.patience.timeout_s
        with ask(self.file.url, start=state.safe, validator=state.validator, timeout_s=timeout_s) as answer:
            if known and answer.total not in (-1, known.size):
                raise self._changed(f"it now has {answer.total:,} bytes, and had {known.size:,} when it was fetched")
            self._check_space(answer)
            with part.writing(answer) as write:
                self.progress(self.path.name, answer.start, answer.total)
                for chunk in answer.chunks():
                    self.progress(self.path.name, write(chunk), answer.total)
        if answer.total not in (-1, state.safe):
            raise Unreachable(f"the connection closed after {state.safe:,} of {answer.total:,} bytes")

    def _check_space(self, answer: Answer) -> None:
        free = shutil.disk_usage(self.path.parent).free
        if answer.total - answer.start > free:
            raise MachineError(
                f"{answer.total - answer.start:,} bytes are still to come and {free:,} are free",
                where=str(self.path.parent),
                fix="free some space, or fetch into another folder",
            )

    def _listed(self) -> str:
        """The mirror's word on the file, `algorithm:digest name`, or "" where it has no checksum file."""
        if not self.file.checksums:
            return ""
        text = read_text(self.file.checksums, self.patience)
        return _find_listed(text, unquote(urlsplit(self.file.url).path).rpartition("/")[2], self.file.checksums)

    def _accept(self, path: Path, *, etag: str, listed: str) -> FetchedFile:
        """Hash the file and compare with all that is known of it: the mirror's list, the recipe, the first fetch."""
        algorithm, _, digest = listed.partition(" ")[0].partition(":")
        expected = [(algorithm, digest, self.file.checksums), ("sha256", self.file.sha256, "the recipe")]
        if self.known and self.known.url == self.file.url:
            expected.append(("sha256", self.known.sha256, str(self.path.with_name(RECORD))))
        found = _digests(path, {"sha256", *(name for name, value, _ in expected if value)})
        for name, value, authority in expected:
            if value and found[name] != value.lower():
                raise InputError(
                    f"the {name} of {self.path.name} is {found[name]}, and {authority} says {value}",
                    where=str(self.path),
                    fix=self._mend(path),
                )
        return FetchedFile(
            self.path.name,
            self.file.url,
            path.stat().st_size,
            found["sha256"],
            etag,
            self.file.checksums if listed else "",
            listed,
        )

    def _mend(self, path: Path) -> str:
        if path == self.path:
            return "delete or move the file, and fetch again"
        return f"fetch again; if it was replaced on purpose, first delete its entry in {RECORD}"

    def _changed(self, how: str) -> InputError:
        return InputError(
            f"{self.path.name} is another file than before: {how}",
            where=self.file.url,
            fix=f"to take the new one, delete its entry in {self.path.with_name(RECORD)}",
        )


def _find_listed(text: str, name: str, source: str) -> str:
    """Find a file in the output of md5sum, sha1sum and kin, as `algorithm:digest name`.

    Wikimedia's `latest` folder lists the dated names of the files that its links point to.
    """
    pattern = re.compile(re.escape(name).replace(r"\-latest\-", r"-(?:latest|\d{8})-"))
    for line in text.splitlines():
        digest, _, listed = line.strip().partition(" ")
        listed = listed.lstrip(" *").rpartition("/")[2]
        if pattern.fullmatch(listed) and re.fullmatch(r"[0-9a-fA-F]+", digest) and len(digest) in ALGORITHMS:
            return f"{ALGORITHMS[len(digest)]}:{digest.lower()} {listed}"
    raise InputError(
        f"{name} is not in the mirror's checksum file",
        where=source,
        fix="the mirror may be at work on this dump: choose another date, or fetch again later",
    )


def _digests(path: Path, algorithms: set[str]) -> dict[str, str]:
    """Hashes of a file in hex, all in one reading."""
    hashes = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms}
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            for each in hashes.values():
                each.update(block)
    return {name: each.hexdigest() for name, each in hashes.items()}


def _read_record(path: Path) -> dict[str, FetchedFile]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, FetchedFile])
    except FileNotFoundError:
        return {}
    except ValueError as error:  # msgspec's own, or UnicodeDecodeError
        raise InputError(
            f"the record of what was fetched cannot be read: {error}",
            where=str(path),
            fix="delete it: the files are then checked and recorded again",
        ) from error


@contextmanager
def _disk(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise write_error(error, Path(error.filename or folder)) from error
