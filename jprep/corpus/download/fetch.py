"""Download the files of a recipe, resume interrupted downloads, and verify them.

A download is written to `NAME.part`, with its state in `NAME.part.json`, and renamed once it is complete and its hashes
match. `fetched.json` in the same folder records each file; later fetches must match it.
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
from jprep.corpus.download.partial import PartialFile
from jprep.corpus.download.remote import (
    NotOnServer,
    RemoteContent,
    RetryPolicy,
    Unreachable,
    open_url,
    read_text,
    retry,
)
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import DOWNLOADS
from jprep.errors import ConfigError, InputError, MachineError
from jprep.io.atomic import write_atomic
from jprep.io.os_errors import write_error
from jprep.io.safe_names import check_name
from jprep.typed_json import decode_json

RECORD = "fetched.json"
ALGORITHMS = {32: "md5", 40: "sha1", 56: "sha224", 64: "sha256", 96: "sha384", 128: "sha512"}
"""Hash algorithm by the number of hex digits. Checksum files do not name the algorithm."""

ProgressCallback = Callable[[str, int, int], None]
"""Called with the name of a file, the bytes downloaded so far, and its size in bytes (-1 if unknown)."""


class FetchedFile(msgspec.Struct, frozen=True):
    """A complete, verified file in the download folder.

    Attributes:
        name: name in the folder.
        url: address it was downloaded from.
        size: size in bytes.
        sha256: hash, which later fetches must match.
        etag: ETag or Last-Modified header of the server, or "".
        checksums: address of the mirror's checksum file that it was verified against, or "".
        listed: its entry in the checksum file, `algorithm:digest name`; for a `latest` link, the name has the date.
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
    retry_policy: RetryPolicy | None = None,
) -> list[FetchedFile]:
    """Download files to a folder. Existing files are verified instead; recorded ones without network access.

    Args:
        files: files to fetch; a URL may be http(s), `file://` or a path.
        folder: where to store the files and `fetched.json`; created if needed.
        progress: callback for each chunk.
        retry_policy: when to retry; the default suits a mirror on the internet.

    Returns:
        The records of the files, in the order of `files`.

    Raises:
        ConfigError: a file is not on the server, or the folder holds an output of another kind.
        InputError: a file does not match the recipe, the mirror's checksum or an earlier fetch.
        MachineError: no network, no disk space or no permission.
    """
    named = files_by_name(files)
    with _disk(folder), OutputDirectory(folder, DOWNLOADS, shared=True).claim():
        record = _read_record(folder / RECORD)
        for name, file in named.items():
            job = _FileFetch(file, folder / name, record.get(name), retry_policy or RetryPolicy(), progress or _silent)
            record[name] = job.run()
            write_atomic(folder / RECORD, msgspec.json.format(msgspec.json.encode(record, order="sorted")) + b"\n")
    return [record[name] for name in named]


def _silent(name: str, done: int, total: int) -> None:
    """Ignore progress."""


def files_by_name(files: Iterable[RemoteFile]) -> dict[str, RemoteFile]:
    """Return the files by their names in the download folder.

    Raises:
        ConfigError: a file has no valid name, or two files have the same name.
    """
    named: dict[str, RemoteFile] = {}
    for file in files:
        name = file.name or unquote(urlsplit(file.url).path).rpartition("/")[2]
        check_name(name, what="a download", where=file.url, fix='give it another name: name = "…"')
        if name in (RECORD, DOWNLOADS.lock) or name.endswith((".part", ".part.json")):
            fix = 'give it another name: name = "…"'
            raise ConfigError(
                f"a download cannot be called {name!r}: jprep uses this name itself", where=file.url, fix=fix
            )
        if named.setdefault(name, file) != file:
            raise ConfigError(f"two files would be called {name}", where=file.url, fix='give one another: name = "…"')
    return named


class _FileFetch:
    """Fetches one file."""

    def __init__(
        self,
        file: RemoteFile,
        path: Path,
        known: FetchedFile | None,
        retry_policy: RetryPolicy,
        progress: ProgressCallback,
    ) -> None:
        self.file, self.path, self.known, self.retry_policy, self.progress = file, path, known, retry_policy, progress

    def run(self) -> FetchedFile:
        try:
            return self._fetch()
        except NotOnServer as error:
            raise NotOnServer(error.what, where=error.where, fix=self._missing_fix()) from error

    def _fetch(self) -> FetchedFile:
        if not self.path.exists():
            return self._download()
        if self.known is None:
            return self._accept(self.path, etag="", listed=self._listed())
        if self.known.url != self.file.url:
            raise ConfigError(
                f"{self.path.name} was downloaded from another url: {self.known.url}",
                where=str(self.path),
                fix="move the file away, or set another `name` in the recipe",
            )
        return self._accept(self.path, etag=self.known.etag, listed=self.known.listed)

    def _download(self) -> FetchedFile:
        listed = self._listed()
        known = self.known if self.known and self.known.url == self.file.url else None
        if known and known.listed and listed and known.listed != listed:
            raise self._changed(f"the mirror lists {listed}, but {known.listed} was fetched before")
        part = PartialFile(self.path, self.file.url)
        if not part.complete:
            retry(lambda: self._receive(part, known), self.file.url, self.retry_policy, lambda: part.state.safe)
        try:
            fetched = self._accept(part.path, etag=part.state.validator, listed=listed)
        except InputError:
            part.discard()
            raise
        part.commit()
        return fetched

    def _receive(self, part: PartialFile, known: FetchedFile | None) -> None:
        state, timeout_s = part.state, self.retry_policy.timeout_s
        with open_url(self.file.url, start=state.safe, validator=state.validator, timeout_s=timeout_s) as response:
            if known and response.total not in (-1, known.size):
                raise self._changed(f"it now has {response.total:,} bytes, but had {known.size:,} when it was fetched")
            self._check_space(response)
            with part.writing(response) as write:
                self.progress(self.path.name, response.start, response.total)
                for chunk in response.chunks():
                    self.progress(self.path.name, write(chunk), response.total)
        if response.total not in (-1, state.safe):
            raise Unreachable(f"the connection closed after {state.safe:,} of {response.total:,} bytes")

    def _check_space(self, response: RemoteContent) -> None:
        free = shutil.disk_usage(self.path.parent).free
        if response.total - response.start > free:
            raise MachineError(
                f"not enough disk space: {response.total - response.start:,} bytes to download, {free:,} bytes free",
                where=str(self.path.parent),
                fix="free some space, or fetch into another folder",
            )

    def _listed(self) -> str:
        """Return the file's entry in the mirror's checksum file, `algorithm:digest name`, or "" without such a file."""
        if not self.file.checksums:
            return ""
        text = read_text(self.file.checksums, self.retry_policy)
        return _find_listed(text, unquote(urlsplit(self.file.url).path).rpartition("/")[2], self.file.checksums)

    def _accept(self, path: Path, *, etag: str, listed: str) -> FetchedFile:
        """Hash the file and compare with the mirror's checksum, the recipe and earlier fetches."""
        algorithm, _, digest = listed.partition(" ")[0].partition(":")
        expected = [(algorithm, digest, self.file.checksums), ("sha256", self.file.sha256, "the recipe")]
        if self.known and self.known.url == self.file.url:
            expected.append(("sha256", self.known.sha256, str(self.path.with_name(RECORD))))
        found = _digests(path, {"sha256", *(name for name, value, _ in expected if value)})
        for name, value, origin in expected:
            if value and found[name] != value.lower():
                raise InputError(
                    f"the {name} of {self.path.name} is {found[name]}, but {origin} has {value}",
                    where=str(self.path),
                    fix=self._mismatch_fix(path),
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

    def _missing_fix(self) -> str:
        if self.path.exists():
            return f"{self.path} is there, and can be read without this: remove `checksums` from the recipe"
        why = "mirrors keep a dated dump for some months only"
        return f"{why}: put your copy at {self.path}, or use another date, or `latest`, in the recipe's url and paths"

    def _mismatch_fix(self, path: Path) -> str:
        if path == self.path:
            return "delete or move the file, and fetch again"
        return f"fetch again; if the file was replaced on purpose, delete its entry in {RECORD} first"

    def _changed(self, how: str) -> InputError:
        return InputError(
            f"{self.path.name} has changed on the server: {how}",
            where=self.file.url,
            fix=f"to use the new file, delete its entry in {self.path.with_name(RECORD)}",
        )


def _find_listed(text: str, name: str, source: str) -> str:
    """Find a file in the output of a checksum program such as md5sum; return `algorithm:digest name`.

    The checksum file in Wikimedia's `latest` folder contains the dated names of the linked files.
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
        fix="the mirror may still be writing this dump: choose another date, or fetch again later",
    )


def _digests(path: Path, algorithms: set[str]) -> dict[str, str]:
    """Return several hashes of a file in hexadecimal, reading it once."""
    hashes = {name: hashlib.new(name, usedforsecurity=False) for name in algorithms}
    with path.open("rb") as stream:
        while block := stream.read(1 << 20):
            for each in hashes.values():
                each.update(block)
    return {name: each.hexdigest() for name, each in hashes.items()}


def _read_record(path: Path) -> dict[str, FetchedFile]:
    try:
        return decode_json(path.read_bytes(), dict[str, FetchedFile])
    except FileNotFoundError:
        return {}
    except ValueError as error:  # msgspec's own, or UnicodeDecodeError
        raise InputError(
            f"cannot read the record of downloads: {error}",
            where=str(path),
            fix="delete it; the files are then verified and recorded again",
        ) from error


@contextmanager
def _disk(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise write_error(error, Path(error.filename or folder)) from error
