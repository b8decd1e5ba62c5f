"""Upload and download folders whose files are known by their hashes; the manifest is written last.

An upload keeps the hashes of the objects that have arrived in an object of its own, `RECORD`, which it deletes at its
end. So an interrupted upload resumes, and a folder without its manifest is never taken for a finished one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from jprep.io.hashing import cached_sha256
from jprep.io.remote.objects import delete_object, download_file, join_url, list_objects, read_bytes, upload_file
from jprep.io.remote.objects import write_bytes as write_object
from jprep.io.safe_names import inner_path
from jprep.typed_json import decode_json

RECORD = ".jprep-upload.json"
"""The object with the hashes of what an unfinished upload has written."""

_RECORD_SECONDS = 5.0  # the most that an interrupted upload repeats, besides one file

Progress = Callable[[str, int, bool], None]
"""Called for each finished file, with its name, its size in bytes, and whether it was transferred just now."""


class _UploadRecord(msgspec.Struct):
    """`RECORD`: the SHA-256 of each object by name."""

    files: dict[str, str] = {}


def upload_folder(
    folder: Path,
    url: str,
    files: Mapping[str, str],
    last: str = "",
    *,
    replaced: Mapping[str, str] = {},
    before_last: Callable[[], None] | None = None,
    progress: Progress | None = None,
) -> None:
    """Upload the files of a folder, and the manifest last. Objects that have arrived are not sent again.

    Args:
        folder: the folder.
        url: the folder's URL.
        files: the SHA-256 of each file by its path relative to the folder, without the manifest.
        last: the manifest; "" if there is none.
        replaced: the SHA-256 of the objects of a finished upload that this one replaces; those that are no part of the
            new one are deleted.
        before_last: called when everything but the manifest has arrived.
        progress: progress callback.

    Raises:
        DamagedError: a file is missing, or has another hash.
        ConfigError, MachineError: see `jprep.io.remote.retry.retry_remote`.
    """
    upload = _Upload(url, dict(replaced))
    if last and read_bytes(join_url(url, last)) not in (None, (folder / last).read_bytes()):
        upload.save()
        delete_object(join_url(url, last))
    for name, sha256 in files.items():
        size = (folder / name).stat().st_size
        fresh = not upload.has(name, sha256, size)
        if fresh:
            upload_file(folder / name, join_url(url, name), sha256)
            upload.add(name, sha256)
        if progress:
            progress(name, size, fresh)
    if before_last:
        before_last()
    if last:
        upload_file(folder / last, join_url(url, last))
    upload.finish(files)


class _Upload:
    """The objects of an upload at a URL."""

    def __init__(self, url: str, known: dict[str, str]) -> None:
        self._url, self._record = url, join_url(url, RECORD)
        self._sizes = list_objects(url)
        self._known = known | (_read_record(self._record) if RECORD in self._sizes else {})
        self._saved = time.monotonic()

    def has(self, name: str, sha256: str, size: int) -> bool:
        """Return whether an object with this content has arrived."""
        return self._known.get(name) == sha256 and self._sizes.get(name) == size

    def add(self, name: str, sha256: str) -> None:
        """Note that an object has arrived."""
        self._known[name] = sha256
        if time.monotonic() - self._saved > _RECORD_SECONDS or RECORD not in self._sizes:
            self.save()

    def save(self) -> None:
        """Write the record."""
        write_object(msgspec.json.encode(_UploadRecord(self._known)), self._record)
        self._saved = time.monotonic()
        self._sizes.setdefault(RECORD, 0)

    def finish(self, files: Mapping[str, str]) -> None:
        """Delete what is no part of the finished upload, the record last."""
        for name in self._known.keys() - files.keys():
            delete_object(join_url(self._url, name))
        if RECORD in self._sizes:
            delete_object(self._record)


def _read_record(url: str) -> dict[str, str]:
    try:
        files = decode_json(read_bytes(url) or b"{}", _UploadRecord).files
        return {inner_path(name): sha256 for name, sha256 in files.items()}
    except ValueError:  # damaged: everything is sent again
        return {}


def download_folder(url: str, folder: Path, files: Mapping[str, str]) -> None:
    """Download the files of a folder, with checked hashes. Files that exist with the right hash are kept.

    Args:
        url: the folder's URL.
        folder: the local folder.
        files: the SHA-256 of each file by its path relative to the folder.

    Raises:
        DamagedError: an object is missing, or has another hash.
        ConfigError, MachineError: see `jprep.io.remote.retry.retry_remote`; or the disk is full or not writable.
    """
    for name, sha256 in files.items():
        path = folder / inner_path(name)
        if not (path.is_file() and cached_sha256(path) == sha256):
            download_file(join_url(url, name), path, sha256)
